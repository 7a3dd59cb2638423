# Where an installation lies and what leads to it; sourced by install.sh and uninstall.sh after environment.sh.
# shellcheck shell=bash
#
# The program lies in one of two folders, $VENV.a and $VENV.b, and $VENV is a link to it: an upgrade is made in the other
# one, beside the program that runs, and a rename of the link is the switch. Written for bash 3.2.

# Absolute and without a slash at its end: links hold it, and names are made of it.
case $VENV in /*) ;; *) VENV=$PWD/$VENV ;; esac
while [ "$VENV" != "${VENV%/}" ]; do
    VENV=${VENV%/}
done
SLOTS=("$VENV.a" "$VENV.b")
SHARE=${XDG_DATA_HOME:-${HOME:?HOME is not set}/.local/share}

# Calls $1 with each link (where it is, what of the environment it leads to). Shells look for completions by the name that
# is typed, and kb is the same program; zsh's file names both.
for_each_link() {
    local name
    for name in kbsync kb; do
        "$1" "$HOME/.local/bin/$name" "bin/$name"
        "$1" "$SHARE/man/man1/$name.1" share/man/man1/kbsync.1
        "$1" "$SHARE/bash-completion/completions/$name" share/bash-completion/completions/kbsync
        "$1" "$SHARE/fish/vendor_completions.d/$name.fish" share/fish/vendor_completions.d/kbsync.fish
    done
    "$1" "$SHARE/zsh/site-functions/_kbsync" share/zsh/site-functions/_kbsync
}

# Whether something is a link into our environment, working or not.
is_our_link() {
    [ -h "$1" ] || return 1
    case $(readlink "$1") in "$VENV"/* | "${SLOTS[0]}"/* | "${SLOTS[1]}"/*) return 0 ;; *) return 1 ;; esac
}

is_there() { [ -e "$1" ] || [ -h "$1" ]; }

# A folder that these scripts made, or are about to make, an environment in says so first and last of all.
is_slot() { [ -d "$1" ] && [ ! -h "$1" ] && [ -f "$1/kbsync-slot" ]; }

is_empty_folder() { [ -d "$1" ] && [ ! -h "$1" ] && [ -z "$(ls -A "$1" 2>/dev/null || echo unreadable)" ]; }

# Whether $VENV itself is an environment that the quick start made: a folder, no link.
is_of_quickstart() {
    [ -d "$VENV" ] && [ ! -h "$VENV" ] && [ -f "$VENV/pyvenv.cfg" ] &&
        { [ -f "$VENV/kbsync-installed" ] || [ "$VENV" = "$SHARE/kbsync/venv" ]; }
}

# Removes a slot, first what says that it is whole, last what says that it is one: an interrupted removal can go on.
remove_slot() {
    if ! is_there "$1"; then
        return 0
    fi
    if is_empty_folder "$1"; then
        rmdir "$1"
        return
    fi
    if ! is_slot "$1"; then
        fail "$1 is there and is nothing that kbsync made, so it is left alone. Move it away, or set KBSYNC_VENV to another folder."
    fi
    rm -f "$1/kbsync-installed" && find "$1" -mindepth 1 -maxdepth 1 ! -name kbsync-slot -exec rm -rf {} + &&
        rm -f "$1/kbsync-slot" && rmdir "$1"
}

# One installation at a time: a link whose target is the number of the process is made at once or not at all.
hold_lock() {
    local holder
    mkdir -p "$(dirname "$VENV")"
    if ! ln -s "$$" "$VENV.lock" 2>/dev/null; then
        holder=$(readlink "$VENV.lock") || fail "$VENV.lock cannot be made. Is $(dirname "$VENV") writable?"
        if kill -0 "$holder" 2>/dev/null; then
            fail "Another installation is under way (process $holder). Wait for its end; if there is none, remove $(quoted "$VENV.lock")."
        fi
        rm -f "$VENV.lock"
        ln -s "$$" "$VENV.lock"
    fi
}

release_lock() { rm -f "$VENV.lock"; }

# An installation for root that was meant for another user would leave files that this one cannot change.
refuse_sudo() {
    if [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
        fail "Run this as $SUDO_USER, without sudo: everything stays in your own home."
    fi
}

# Prints none, stopped or running: what the system says of the service, where one that failed is one that should run.
# none where there is no program to ask, or no system that runs services.
service_state() {
    local told
    told=$("$VENV/bin/kbsync" service status --json 2>/dev/null) || true # its exit code only says whether it runs
    "$VENV/bin/python" -c '
import json, sys
told = json.loads(sys.argv[1] or "{}")
print("none" if not told.get("installed") else "stopped" if told["state"] == "stopped" else "running")' "$told" 2>/dev/null || echo none
}

# A kbsync that somebody started by hand would lose its libraries while it runs.
refuse_running_by_hand() {
    local told code=0
    if [ "$(service_state)" = running ]; then
        return 0
    fi
    told=$("$VENV/bin/kbsync" status --json 2>/dev/null) || code=$?
    # One that starts, perhaps for hours (a migration), is told with the exit code of one that does not run.
    case $code,$told in 0,* | *'"state": "starting"'*)
        fail "kbsync is running, started by hand. End it (Ctrl+C where it runs), then run this again."
        ;;
    esac
}
