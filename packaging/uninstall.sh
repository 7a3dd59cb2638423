#!/usr/bin/env bash
# Removes what install.sh put in place: the service, the links, the program. Data and configuration stay.
#
#   packaging/uninstall.sh [--purge [--yes]]
#
# --purge deletes the index, the files that kbsync keeps, its models, logs and configuration too: it lists them and asks,
# --yes answers. Of your own folders nothing is ever touched. KBSYNC_VENV says where the program lies, KBSYNC_HOME where the
# data lie, if they were set when it was installed.
set -euo pipefail

unset CDPATH # else `cd` may go elsewhere, and says where
HERE=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ -z "${KBSYNC_VENV:-}" ] && [ -f "${HERE%/packaging}/kbsync-installed" ]; then
    # The copy that lies in the environment removes this one.
    KBSYNC_VENV=${HERE%/packaging}
    KBSYNC_VENV=${KBSYNC_VENV%.[ab]}
fi
# shellcheck source=packaging/environment.sh
. "$HERE/environment.sh"
# shellcheck source=packaging/installation.sh
. "$HERE/installation.sh"

usage() { sed -n '2,8s/^# \{0,1\}//p' "$HERE/uninstall.sh"; }

purge=no
yes=no
# Whether anything of a program was there to be removed.
found=no
# What --purge deletes, and the folders that go after it where nothing else is in them.
doomed=()
folders=()

parse() {
    while [ $# -gt 0 ]; do
        case $1 in
            -h | --help)
                usage
                exit 0
                ;;
            --purge) purge=yes ;;
            --yes) yes=yes ;;
            *)
                say "There is no argument $1."
                usage >&2
                exit 2
                ;;
        esac
        shift
    done
    if [ "$yes" = yes ] && [ "$purge" = no ]; then
        say "--yes belongs to --purge."
        exit 2
    fi
}

# Sets config_dir, data_dir, state_dir, log_dir and error_dir as the program finds them.
find_places() {
    local home=${KBSYNC_HOME:-} usual
    if [ -n "$home" ]; then
        # shellcheck disable=SC2088 # a tilde that came in unexpanded, as the program takes it
        case $home in '~' | '~/'*) home=$HOME${home#'~'} ;; /*) ;; *) home=$PWD/$home ;; esac
        config_dir=$home data_dir=$home/data state_dir=$home/state log_dir=$home/logs error_dir=$home
        return
    fi
    if [ "$(uname -s)" = Darwin ]; then
        usual="$HOME/Library/Application Support"
        config_dir=${XDG_CONFIG_HOME:-$usual}/kbsync
        data_dir=${XDG_DATA_HOME:-$usual}/kbsync
        state_dir=${XDG_STATE_HOME:-$usual}/kbsync
        log_dir=$HOME/Library/Logs/kbsync
    else
        config_dir=${XDG_CONFIG_HOME:-$HOME/.config}/kbsync
        data_dir=${XDG_DATA_HOME:-$HOME/.local/share}/kbsync
        state_dir=${XDG_STATE_HOME:-$HOME/.local/state}/kbsync
        log_dir=$state_dir/log
    fi
    error_dir=$HOME/.kb
}

# Notes what of the folder $1 is kbsync's own, by the names that it gives: nothing else in there is touched. A folder may be
# reached through a link; the link goes with it.
doom() {
    local folder name path
    if [ ! -d "$1" ]; then
        if [ -h "$1" ]; then
            say "$1 leads nowhere now; if a disk is away, what lies on it is left there."
        fi
        return 0
    fi
    folder=$(cd -P "$1" && pwd) || return 0
    folders+=("$folder")
    if [ -h "$1" ]; then
        folders+=("$1")
    fi
    shift
    for name in "$@"; do
        # The names are ours and may be patterns; the folder's name is taken as it is.
        for path in "$folder"/$name; do
            if is_there "$path"; then
                doomed+=("$path")
            fi
        done
    done
}

find_doomed() {
    # Folders below KBSYNC_HOME have names that others give too, such as data/models: they are ours where kbsync has worked.
    if [ -n "${KBSYNC_HOME:-}" ] && ! is_there "$data_dir/kb.lock" && ! is_there "$data_dir/kb.sqlite3"; then
        say "KBSYNC_HOME is set, but kbsync has never worked in $config_dir: nothing there is deleted."
        return
    fi
    doom "$data_dir" kb.sqlite3 'kb.sqlite3-*' 'kb.sqlite3.*' kb.mark kb.suspect kb.rebuilding documents staging conversions cage restoring models 'before-restore-*'
    doom "$log_dir" 'kbsync.log*' 'service.log*'
    doom "$state_dir" token kbsync.sock heartbeat opened early-ends.json '.early-ends-*'
    doom "$error_dir" 'ingest-errors.log*'
    doom "$config_dir" config.toml '.config-*.toml'
    doom "$data_dir" kb.lock # last: what an interruption leaves is still known as ours
}

say_doomed() {
    local path files
    say "These are deleted for good:"
    for path in ${doomed[@]+"${doomed[@]}"}; do
        if [ -h "$path" ]; then
            say "  $path (a link; what it leads to stays)"
        elif [ "${path##*/}" = documents ]; then
            files=$(find "$path" -type f | wc -l)
            say "  $path ($((files)) files that kbsync keeps; of what came from an inbox there may be no other copy)"
        else
            say "  $path"
        fi
    done
}

ask() {
    local answer
    if [ "$yes" = yes ]; then
        return
    fi
    if [ ! -t 0 ]; then
        say "There is no terminal to ask on; --yes answers. Nothing was removed."
        exit 5
    fi
    printf 'Delete them? [y/N] ' >&2
    read -r answer || answer=
    case $answer in
        [yY]*) ;;
        *)
            say "Nothing was removed."
            exit 5
            ;;
    esac
}

delete_doomed() {
    local path
    for path in ${doomed[@]+"${doomed[@]}"}; do
        rm -rf "$path" || fail "$path could not be deleted (see above). Run this again."
    done
}

# Removes folders that are empty now, and names those that hold something else.
clear_folders() {
    local path before=
    for path in ${folders[@]+"${folders[@]}"}; do
        if [ "$path" = "$before" ]; then
            continue # configuration and errors lie in one folder below KBSYNC_HOME
        fi
        before=$path
        if [ -h "$path" ]; then
            [ -d "$path" ] || rm -f "$path"
        elif is_empty_folder "$path"; then
            rmdir "$path"
        elif [ -d "$path" ]; then
            say "$path is kept: it holds other things."
        fi
    done
}

# shellcheck disable=SC2317,SC2329 # called by name
remove_link() {
    if is_our_link "$1"; then
        rm -f "$1"
        found=yes
    fi
}

remove_service() {
    local unit=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/kbsync.service agent=$HOME/Library/LaunchAgents/local.kbsync.plist
    if "$VENV/bin/kbsync" service uninstall >&2 2>/dev/null; then
        return
    fi
    # The program does not run any more, or is older than services. A file that leads elsewhere is not ours.
    if grep -qF "$VENV" "$unit" 2>/dev/null; then
        systemctl --user disable --now kbsync.service >&2 || say "The service could not be stopped; it ends when you log out."
        rm -f "$unit"
        found=yes
        systemctl --user daemon-reload >&2 || true
    fi
    if grep -qF "$VENV" "$agent" 2>/dev/null; then
        launchctl bootout "gui/$(id -u)/local.kbsync" >&2 || true
        rm -f "$agent"
        found=yes
    fi
}

main() {
    local slot
    parse "$@"
    refuse_sudo
    if [ -d "$(dirname "$VENV")" ]; then
        hold_lock
        trap release_lock EXIT
    fi
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    find_places
    refuse_running_by_hand
    if [ "$purge" = yes ]; then
        find_doomed
        if [ "${#doomed[@]}" -gt 0 ]; then
            say_doomed
            ask
        fi
    fi
    remove_service
    for_each_link remove_link
    if [ -h "$VENV" ]; then
        rm -f "$VENV"
        found=yes
    fi
    if is_of_quickstart; then
        : >"$VENV/kbsync-slot"
    fi
    for slot in "${SLOTS[@]}" "$VENV"; do
        if is_slot "$slot"; then
            remove_slot "$slot"
            found=yes
        fi
    done
    rm -f "$VENV.stopped"
    if [ "$found" = yes ]; then
        say "kbsync is removed."
    else
        say "There is no kbsync in $VENV, so there was no program to remove. (KBSYNC_VENV names another place.)"
    fi
    if [ "$purge" = yes ]; then
        delete_doomed
    fi
    release_lock
    if [ "$VENV" = "$SHARE/kbsync/venv" ] && is_empty_folder "$SHARE/kbsync"; then
        rmdir "$SHARE/kbsync"
    fi
    if [ "$purge" = yes ]; then
        clear_folders
    elif [ -d "$data_dir" ] || [ -d "$config_dir" ]; then
        say "Kept: the data in $data_dir, the configuration in $config_dir. A new installation goes on with them; to delete them use --purge."
    fi
}

main "$@"
exit
