#!/usr/bin/env bash
# A small release script, as a sample of Bash with functions and a here-document.

# Writes the release notes.
write_notes() {
    cat <<NOTES
release $1
main() { this line is text, not a function; }
NOTES
}

function check_disk_space {
    df -Pk . | awk 'NR == 2 { exit $4 < 100000 }'
}

main() {
    check_disk_space || { echo "disk almost full" >&2; return 1; }
    write_notes "$1"
}

main "$@"
