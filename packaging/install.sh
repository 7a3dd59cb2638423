#!/usr/bin/env bash
# Installs kbsync for daily use, for one user, without root; run again, it upgrades in place.
#
#   packaging/install.sh [--service | --no-service] [--fresh] [WHEEL]
#
# The program comes from the wheel file named, else from the checkout this script lies in, which is not needed afterwards.
# It gets an environment of its own, ~/.local/share/kbsync/venv, and links in ~/.local/bin, with man page and completions.
# --service starts it at every login, --no-service takes that away; without either a terminal is asked at the first
# installation, and an upgrade leaves it as it is. An upgrade is made beside the installed version and takes over libraries
# that fit, so that it needs little room and time; interrupted, it leaves the installed version working. --fresh fetches
# all libraries anew. KBSYNC_VENV places the environment, PYTHON names the interpreter to make it with.
set -euo pipefail

unset CDPATH # else `cd` may go elsewhere, and says where
HERE=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CHECKOUT=$(dirname "$HERE")
# shellcheck source=packaging/environment.sh
. "$HERE/environment.sh"
# shellcheck source=packaging/installation.sh
. "$HERE/installation.sh"

usage() { sed -n '2,12s/^# \{0,1\}//p' "$HERE/install.sh"; }

# What says that an upgrade stopped the service and has not started it again yet, also after a loss of power.
STOPPED=$VENV.stopped

wheel=
service=
fresh=no
temporary=
unfinished=

parse() {
    while [ $# -gt 0 ]; do
        case $1 in
            -h | --help)
                usage
                exit 0
                ;;
            --service | --no-service) service=$1 ;;
            --fresh) fresh=yes ;;
            -*)
                say "There is no option $1."
                usage >&2
                exit 2
                ;;
            *)
                if [ -n "$wheel" ]; then
                    say "Only one wheel can be named."
                    exit 2
                fi
                wheel=$1
                ;;
        esac
        shift
    done
    if [ -n "$wheel" ]; then
        case ${wheel##*/} in
            kbsync-*.whl) ;;
            *)
                say "'$wheel' is not a wheel of kbsync (kbsync-VERSION-py3-none-any.whl)."
                exit 2
                ;;
        esac
        if [ ! -f "$wheel" ]; then
            say "There is no file $wheel."
            exit 2
        fi
        case $wheel in /*) ;; *) wheel=$PWD/$wheel ;; esac
    elif [ ! -f "$CHECKOUT/pyproject.toml" ]; then
        say "Name the wheel to install, or run packaging/install.sh of a checkout."
        exit 2
    fi
}

# Whatever ends the script: what is half made goes, and the service that was stopped for the switch runs again.
# shellcheck disable=SC2317,SC2329 # called by name
clean_up() {
    local code=$?
    trap - EXIT
    if [ -n "$temporary" ]; then
        rm -rf "$temporary"
    fi
    if [ -n "$unfinished" ]; then
        (remove_slot "$unfinished") || true
        if is_there "$VENV"; then
            say "Nothing was changed: $VENV is as it was."
        fi
    fi
    if [ -e "$STOPPED" ]; then
        if "$VENV/bin/kbsync" service start >&2; then
            rm -f "$STOPPED"
        else
            say "The service was not started again. Try:  kbsync service start"
        fi
    fi
    release_lock
    exit "$code"
}

works() { [ -x "$1/bin/python" ] && "$1/bin/python" -c 'import pip' >/dev/null 2>&1; }

# Prints what tells one installation from another: the wheel's content, the Python, and what is mended afterwards.
stamp_of_wheel() {
    printf 'wheel %s\n' "$(cksum <"$1")"
    printf 'python %s\n' "$("$2" -c 'import platform; print(platform.python_version(), platform.machine())')"
    printf 'cures %s\n' "$(cksum <"$HERE/environment.sh")"
}

# Makes the folder $1 an environment without packages, with the interpreter $2.
make_bare() { remove_slot "$1" && mkdir -p "$1" && : >"$1/kbsync-slot" && "$2" -m venv --without-pip "$1"; }

# Takes over the libraries of an environment as hard links: no room, and no download of what fits. pip replaces files, it
# never writes into them, so the environment they come from stays as it is. Fails where the Python is another one.
take_over() {
    "$1/bin/python" -c '
import os, shutil, subprocess, sys, sysconfig
def ask(python):
    code = "import platform, sysconfig; print(platform.machine(), sysconfig.get_python_version(), sysconfig.get_path(\"purelib\"))"
    machine, version, place = subprocess.check_output([python, "-c", code], text=True).rstrip("\n").split(" ", 2)
    return (machine, version), place
(ours, old), (theirs, new) = ask(sys.executable), ask(sys.argv[1])
def ours_too(folder, names):
    return [name for name in names if folder == old and ("kbsync" in name or name == "__pycache__")]
if ours != theirs:
    sys.exit(1)
shutil.copytree(old, new, symlinks=True, ignore=ours_too, copy_function=os.link, dirs_exist_ok=True)
' "$2/bin/python" 2>/dev/null
}

# Makes the whole environment in the folder $1, with the interpreter $2, from the wheel $3; the folder $4 lends libraries.
build() {
    local VENV=$1 lent=no
    make_bare "$VENV" "$2" || fail "The environment could not be made in $VENV (see above)."
    if [ "$fresh" = no ] && [ -n "$4" ] && take_over "$4" "$VENV" && works "$VENV"; then
        lent=yes
        say "Upgrading beside the installed version, with the libraries that are here"
    else
        { make_bare "$VENV" "$2" && "$VENV/bin/python" -m ensurepip --default-pip >/dev/null; } ||
            fail "pip could not be brought into $VENV."
        warn_of_little_room
        say "Installing kbsync and its libraries"
        say "This takes about 7 GB of disk and 5 to 10 minutes, most of it for PyTorch."
    fi
    { pip_install "$3" && add_table_model && settle_opencv; } || fail "$(said_of_failure "$lent")"
    (check_imports) || fail "$(said_of_failure "$lent")"
    # The checkout may go, the way to remove all this stays.
    { mkdir -p "$VENV/packaging" && cp "$HERE"/{environment,installation,install,uninstall}.sh "$VENV/packaging/" &&
        stamp_of_wheel "$3" "$VENV/bin/python" >"$VENV/kbsync-installed"; } || fail "$VENV cannot be written to (see above)."
}

said_of_failure() {
    if [ "$1" = yes ]; then
        printf 'The upgrade did not end well (see above). Run this again; with --fresh it fetches all libraries anew.'
    else
        printf 'The installation did not end well (see above). Run this again.'
    fi
}

warn_of_little_room() {
    local free
    free=$(df -Pk "$(dirname "$VENV")" 2>/dev/null | awk 'NR == 2 { print int($4 / 1000000) }') || free=
    if [ -n "$free" ] && [ "$free" -lt 8 ]; then
        say "Only $free GB are free in $(dirname "$VENV"); about 7 GB are needed."
    fi
}

# Makes $VENV a link to the folder $1, at once. A folder in its place, as the quick start makes it, first becomes a slot.
switch_to() {
    if is_of_quickstart; then
        remove_slot "${SLOTS[1]}"
        : >"$VENV/kbsync-slot"
        mv "$VENV" "${SLOTS[1]}"
    elif is_empty_folder "$VENV"; then
        rmdir "$VENV"
    fi
    "$1/bin/python" -c '
import os, sys
place, slot = sys.argv[1:]
if os.path.lexists(place + ".new"):
    os.unlink(place + ".new")
os.symlink(os.path.basename(slot), place + ".new")
os.replace(place + ".new", place)' "$VENV" "$1"
}

# An interruption between the two steps of `switch_to`: what was built is whole.
recover() {
    local slot
    if is_there "$VENV" && [ ! -h "$VENV" ] && ! is_of_quickstart && ! is_empty_folder "$VENV"; then
        fail "$VENV is there and is nothing that kbsync made. Set KBSYNC_VENV to another folder, or remove that one."
    fi
    for slot in "${SLOTS[@]}"; do
        if ! is_there "$VENV" && [ -f "$slot/kbsync-installed" ]; then
            switch_to "$slot"
        fi
    done
}

# shellcheck disable=SC2317,SC2329 # called by name
make_link() {
    if is_there "$1" && ! is_our_link "$1"; then
        if [ -e "$VENV/$2" ]; then
            say "$1 is there and is not ours, so it was left alone; $VENV/$2 is what it could lead to."
        fi
    elif [ -e "$VENV/$2" ]; then
        mkdir -p "$(dirname "$1")"
        ln -sf "$VENV/$2" "$1"
    else
        rm -f "$1" # a link of an older version that leads nowhere
    fi
}

# shellcheck disable=SC2016,SC2088 # the shell that reads the lines is to expand them
say_how_to_find_it() {
    local file='~/.profile' line='export PATH="$HOME/.local/bin:$PATH"'
    case ${SHELL:-} in
        */bash) file='~/.bashrc' ;;
        */zsh)
            file='~/.zshrc'
            if [ -h "$SHARE/zsh/site-functions/_kbsync" ]; then
                say "For completions in zsh this line belongs into ~/.zshrc, before compinit:"
                say "  fpath=($(quoted "$SHARE/zsh/site-functions") \$fpath)"
            fi
            ;;
        */fish)
            file='~/.config/fish/config.fish'
            line='fish_add_path ~/.local/bin'
            ;;
    esac
    case ":$PATH:" in *":$HOME/.local/bin:"*) return ;; esac
    say "The folder ~/.local/bin is not on your PATH. Add this line to $file and open a new terminal:"
    say "  $line"
}

wants_service() {
    local answer
    case $service in
        --service) return 0 ;;
        --no-service) return 1 ;;
    esac
    if [ "$1" != first ] || [ ! -t 0 ] || [ ! -t 2 ]; then
        return 1
    fi
    printf 'Start kbsync in the background at every login? [y/N] ' >&2
    read -r answer || return 1
    case $answer in [yY]*) return 0 ;; *) return 1 ;; esac
}

main() {
    local old='' new builder python state=none first=first slot
    parse "$@"
    refuse_sudo
    hold_lock
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    recover
    new=${SLOTS[0]}
    if [ "$(readlink "$VENV" 2>/dev/null)" = "$(basename "$new")" ]; then
        new=${SLOTS[1]}
    fi
    if works "$VENV"; then
        old=$VENV
        if [ -z "${PYTHON:-}" ]; then
            PYTHON=$("$VENV/bin/python" -c 'import sys; print(sys._base_executable)')
        fi
    fi
    if is_installation; then
        first=again
    fi
    find_python
    python=$PYTHON_FOUND
    temporary=$(mktemp -d "${TMPDIR:-/tmp}/kbsync-install-XXXXXX")
    if [ -z "$wheel" ]; then
        say "Building kbsync $(cat "$CHECKOUT/VERSION") from $CHECKOUT"
        builder=$old
        if [ -z "$builder" ]; then
            builder=$temporary/builder
            "$python" -m venv "$builder" || fail "No environment can be made in $temporary (see above)."
        fi
        "$builder/bin/python" -m pip wheel --disable-pip-version-check --quiet --no-deps -w "$temporary" "$CHECKOUT" >&2 ||
            fail "The wheel could not be built (see above)."
        wheel=$(echo "$temporary"/kbsync-*.whl)
    fi
    if [ "$fresh" = no ] && [ "$(cat "$VENV/kbsync-installed" 2>/dev/null)" = "$(stamp_of_wheel "$wheel" "$python")" ] &&
        "$VENV/bin/kbsync" --version >/dev/null 2>&1; then
        say "kbsync $("$VENV/bin/kbsync" --version) is installed already."
        state=$(service_state)
    else
        refuse_running_by_hand
        unfinished=$new
        (build "$new" "$python" "$wheel" "$old") || exit 1
        refuse_running_by_hand
        state=$(service_state)
        if [ "$state" = running ]; then
            : >"$STOPPED"
            "$VENV/bin/kbsync" service stop >&2 || fail "The running service could not be stopped (see above)."
        fi
        switch_to "$new"
        unfinished=
    fi
    for_each_link make_link
    settle_service "$state" "$first"
    for slot in "${SLOTS[@]}"; do
        if [ "$(readlink "$VENV")" != "$(basename "$slot")" ]; then
            remove_slot "$slot"
        fi
    done
    say "kbsync $("$VENV/bin/kbsync" --version) is installed in $VENV."
    say_how_to_find_it
    say "What to do next:  kbsync"
    say "To remove it:     $(quoted "$VENV/packaging/uninstall.sh")"
}

# Brings the service from the state $1 to what is wanted: its file names the environment, so every upgrade writes it anew.
settle_service() {
    local state=$1 kbsync=$VENV/bin/kbsync
    if [ "$state" = none ]; then
        state=$(service_state) # the version before could not tell
    fi
    if [ -e "$STOPPED" ]; then
        state=running
    fi
    if [ "$state" != none ] && [ "$service" = --no-service ]; then
        "$kbsync" service uninstall >&2 || fail "The service could not be removed (see above)."
    elif [ "$state" = stopped ] && [ "$service" != --service ]; then
        "$kbsync" service install --no-start >&2 || fail "The service could not be brought up to date (see above)."
    elif [ "$state" != none ] || wants_service "$2"; then
        "$kbsync" service install >&2 ||
            fail "The service could not be started (see above); the last lines of its log:  kbsync service logs"
    fi
    rm -f "$STOPPED"
}

main "$@"
exit
