#!/usr/bin/env bash
# Keeps the newest seven archives of a folder and deletes the older ones.
set -euo pipefail

readonly KEEP=7

# Packs a folder into an archive whose name carries the date.
pack() {
    local source=$1 target=$2
    tar --create --gzip --file "$target/$(date +%Y-%m-%d)-$(basename "$source").tar.gz" --directory "$source" .
}

# Names the archives that are too many, the oldest last.
surplus() {
    find "$1" -maxdepth 1 -name '*.tar.gz' | sort --reverse | tail -n "+$((KEEP + 1))"
}

prune() {
    surplus "$1" | while IFS= read -r archive; do
        echo "deleting $archive"
        rm -- "$archive"
    done
}

main() {
    if [ $# -ne 2 ]; then
        echo "usage: rotate-archives.sh FOLDER ARCHIVES" >&2
        exit 2
    fi
    pack "$1" "$2"
    prune "$2"
}

main "$@"
