#!/usr/bin/env bash
# From a fresh clone to the first search: makes the environment, adds a folder, runs the daemon, searches.
#
#   packaging/quickstart.sh [--once] [FOLDER]
#
# With FOLDER it is added to your own configuration. Without one, a sample folder is copied to a temporary place, and
# everything kbsync writes stays there. On a terminal it goes on watching until Ctrl+C; without one, or with --once, it
# ends after the search. KBSYNC_VENV places the environment, PYTHON names the interpreter to make it with.
set -euo pipefail

unset CDPATH # else `cd` may go elsewhere, and says where
CHECKOUT=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=packaging/environment.sh
. "$CHECKOUT/packaging/environment.sh"

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

once=no
folder=
folders=0

take_folder() {
    folder=$1
    folders=$((folders + 1))
}

while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --once) once=yes ;;
        --)
            shift
            for word in "$@"; do
                take_folder "$word"
            done
            break
            ;;
        -*)
            say "There is no option $1."
            usage >&2
            exit 2
            ;;
        *) take_folder "$1" ;;
    esac
    shift
done
if [ "$folders" -gt 1 ]; then
    say "Only one folder can be named; there were $folders."
    exit 2
fi
if [ "$folders" -eq 1 ]; then
    named=$folder
    # An empty name would be the home folder to cd.
    folder=$([ -n "$named" ] && cd -P -- "$named" 2>/dev/null && pwd) || {
        say "'$named' is not a folder that can be entered. Name one that is there."
        exit 2
    }
fi
if [ ! -t 1 ]; then
    once=yes
fi

# shellcheck disable=SC2119 # its argument is no argument of this script
make_environment
kbsync=$VENV/bin/kbsync

prefix=
if [ -z "$folder" ]; then
    place=$(mktemp -d "${TMPDIR:-/tmp}/kbsync-quickstart-XXXXXX")
    # The real path: on macOS the temporary folder is reached through a symbolic link.
    place=$(cd -P "$place" && pwd)
    folder=$place/sample
    cp -R "$CHECKOUT/packaging/sample" "$folder"
    export KBSYNC_HOME=$place/home
    mkdir -m 700 "$KBSYNC_HOME"
fi
if [ -n "${KBSYNC_HOME:-}" ]; then
    prefix="KBSYNC_HOME=$(quoted "$KBSYNC_HOME") "
fi
shown="$prefix$(quoted "$kbsync")"

daemon=
asking=
# Ends what the script has started, the daemon in good order, and returns the daemon's exit code. A second Ctrl+C
# meanwhile kills it; the index survives that.
stop_all() {
    local code=0
    if [ -n "$asking" ]; then
        kill -TERM "$asking" 2>/dev/null || true
    fi
    if [ -n "$daemon" ]; then
        trap 'kill -KILL "$daemon" 2>/dev/null || true' INT TERM HUP
        kill -TERM "$daemon" 2>/dev/null || true
        wait "$daemon" || code=$?
        daemon=
    fi
    return "$code"
}

# shellcheck disable=SC2317,SC2329 # called by a trap
end_on_signal() {
    local code=0
    say "" "Ending."
    stop_all || code=$?
    exit "$code"
}
trap 'stop_all || true' EXIT
trap end_on_signal INT TERM HUP

# Runs a command in the background and waits for it, because a signal interrupts `wait` at once, but not a command in
# the foreground. Returns the command's exit code.
patiently() {
    local code=0
    "$@" &
    asking=$!
    wait "$asking" || code=$?
    asking=
    return "$code"
}

stop_if_daemon_ended() {
    local code=0
    if [ -n "$daemon" ] && ! kill -0 "$daemon" 2>/dev/null; then
        wait "$daemon" || code=$?
        daemon=
        say "The daemon ended by itself (exit code $code); what it said is above."
        exit "$((code == 0 ? 1 : code))"
    fi
}

answers() { patiently "$kbsync" status >/dev/null 2>&1; }

title_of_first_document() {
    "$kbsync" documents list --json | "$VENV/bin/python" -c '
import json, sys
print(next((document["title"] for document in json.load(sys.stdin)["documents"]), ""))'
}

is_source() {
    "$kbsync" sources list --json 2>/dev/null | "$VENV/bin/python" -c '
import json, os, sys
paths = [os.path.realpath(os.path.expanduser(source["path"])) for source in json.load(sys.stdin)["sources"]]
sys.exit(not any(sys.argv[1] == path or sys.argv[1].startswith(path.rstrip("/") + "/") for path in paths))' "$folder" 2>/dev/null
}

if is_source; then
    say "$folder is among your sources already."
else
    patiently "$kbsync" sources add "$folder" || exit $?
fi

if answers; then
    say "A daemon is running already; it is used and left running."
else
    # Job control gives the daemon a process group of its own: Ctrl+C reaches this script alone, which ends it in order.
    set -m
    "$kbsync" run &
    daemon=$!
    set +m
    while ! answers; do
        stop_if_daemon_ended
        patiently sleep 0.3
    done
fi

code=0
patiently "$kbsync" wait >/dev/null || code=$?
if [ "$code" -ne 0 ]; then
    # Exit code 4: the daemon does not answer any more. If it died, that shows a moment later.
    for _ in 1 2 3 4 5 6; do
        stop_if_daemon_ended
        [ "$code" -eq 4 ] || break
        patiently sleep 0.5
    done
    say "Not everything could be indexed (exit code $code). What is going on:  $shown status"
    exit "$code"
fi

if [ -n "${place:-}" ]; then
    words='how do I get my money back for a cancelled trip'
else
    words=$(title_of_first_document)
fi

if [ -z "$words" ]; then
    say "Nothing in $folder could be indexed. The reason for a single file:  $shown why FILE"
else
    printf '\nEverything is indexed. A search for: %s\n\n' "$words"
    code=0
    patiently "$kbsync" search --limit 3 -- "$words" || code=$?
    if [ "$code" -ne 0 ] && [ "$code" -ne 3 ]; then
        exit "$code"
    fi
fi

words=$(quoted "${words:-your words}")
code=0
if [ -n "$daemon" ] && [ "$once" = yes ]; then
    stop_all || code=$?
    printf '\nkbsync has ended. Start it again with:\n\n  %s run\n\n' "$shown"
    # Without the daemon a search goes by words only, unless it is told otherwise.
    printf 'Search without it (loading the model takes a while):\n\n  %s search --mode hybrid %s\n\n' "$shown" "$words"
else
    printf '\nSearch from a second terminal:\n\n  %s search %s\n  %s status\n\n' "$shown" "$words" "$shown"
fi
if [ -n "${place:-}" ]; then
    printf 'The sample folder is %s: drop a file in, change one, search again.\nAll of it is temporary; remove it with:  rm -r %s\n' "$folder" "$(quoted "$place")"
fi

if [ -z "$daemon" ]; then
    exit "$code"
fi
printf 'Watching %s until Ctrl+C.\n' "$folder"
code=0
wait "$daemon" || code=$?
daemon=
exit "$code"
