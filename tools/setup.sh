#!/usr/bin/env bash
# tools/setup.sh [python]: sets up what a build needs: Debian packages, and a torch to compile against.
# With `python` also what the tests of the Python package run: all of torch, and clients of it.
#
# Running it again is free: what it finds is kept in build/setup/, keyed on the lists in
# tools/requirements/ and on this script. What is present already (a torch of $PYTHON or of the
# active virtual environment, a tool installed by hand) is used and not installed again.
#
# In:  PYTHON (default python3), VIRTUAL_ENV, ZEROSHARD_EXTRA_PREFIX (a folder with include/)
# Out: build/setup/torch_python, the interpreter whose torch to use (empty: none)
# Exit: 0 ready; 1 an installation failed; 2 packages are missing and may not be installed.
# Python packages that cannot be had are no failure: it says so, and their tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
extra=${1:-}
state=build/setup
stamp=$state/stamp$extra
log=$state/log

say() { echo "setup: $*"; }
die() { local code=$1; shift; echo "setup: $*" >&2; exit "$code"; }
[[ -z $extra || $extra == python ]] || die 2 "usage: tools/setup.sh [python]"

# --- Is everything as the last run left it? ------------------------------------------------------
mkdir -p $state
key=$({ cat tools/requirements/*.txt tools/setup.sh tools/find_torch.py tools/missing_packages.py
        echo "$python ${VIRTUAL_ENV:-} ${ZEROSHARD_EXTRA_PREFIX:-} $PATH"; } | cksum)
if [[ -f $stamp && $(<"$stamp") == "$key" ]] &&
   torch_python=$(<$state/torch_python) && [[ -z $torch_python || -x $torch_python ]]; then
  exit 0
fi
rm -f "$stamp"

# --- Debian packages ------------------------------------------------------------------------------
present() {  # KIND WHAT
  case $1 in
    command) command -v "$2" >/dev/null ;;
    module) "$python" -c "import $2" 2>/dev/null ;;
    file) compgen -G "$2" >/dev/null ;;
    python-header) "$python" -c "import os, sys, sysconfig as s
sys.exit(not os.path.exists(os.path.join(s.get_path('include'), '$2')))" 2>/dev/null ;;
    header)
      local folder
      for folder in ${ZEROSHARD_EXTRA_PREFIX:+"$ZEROSHARD_EXTRA_PREFIX/include"} \
                    /usr/include /usr/local/include; do
        [[ -e $folder/$2 ]] && return 0
      done
      return 1 ;;
    *) die 1 "tools/requirements/debian.txt has an unknown probe '$1'" ;;
  esac
}

needed=() wanted=()
while read -r package need kind what; do
  present "$kind" "$what" && continue
  if [[ $need == needed ]]; then needed+=("$package"); else wanted+=("$package"); fi
done < <(grep -v '^#' tools/requirements/debian.txt)

# As root, or by a sudo that asks for no password; anything else is the user's to run.
privileged=()
if (( EUID != 0 )); then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then privileged=(sudo -n); else privileged=(no); fi
fi
command -v apt-get >/dev/null || privileged=(no)

apt() {
  "${privileged[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>$log 2>&1
}
apt_install() {  # a fresh machine has no package lists, an old one has stale ones: then update first
  apt install -y --no-install-recommends "$@" ||
    { apt update && apt install -y --no-install-recommends "$@"; }
}

for group in needed wanted; do
  declare -n packages=$group
  (( ${#packages[@]} )) || continue
  command_line="sudo apt-get install --no-install-recommends ${packages[*]}"
  if [[ ${privileged[*]} == no ]]; then
    if [[ $group == needed ]]; then
      die 2 "packages are missing and this user may not install them; run: $command_line"
    fi
    say "going on without ${packages[*]} (some checks are skipped); to have them run: $command_line"
    continue
  fi
  say "installing Debian packages (about a minute): ${packages[*]}"
  if ! apt_install "${packages[@]}"; then
    reason=$(grep '^E:' $log | tail -n 1 || true)
    if [[ $group == needed ]]; then
      die 1 "apt-get could not install ${packages[*]} (${reason:-see $log}); is the network there?"
    fi
    say "going on without ${packages[*]}: apt-get could not install them (${reason:-see $log})"
  fi
done

# --- torch ----------------------------------------------------------------------------------------
torch_of() { "$1" tools/find_torch.py 2>>$log; }

# The active virtual environment first, then $PYTHON, then ours if a finished run made it.
wanted_pins=$(cksum <tools/requirements/python.txt)
torch_python=
for candidate in ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python"} "$(command -v "$python" || true)" .venv/bin/python; do
  [[ -n $candidate && -x $candidate ]] || continue
  if [[ $candidate == .venv/* && $(cat .venv/zeroshard-pins 2>/dev/null) != "$wanted_pins" ]]; then continue; fi
  if found=$(torch_of "$candidate"); then torch_python=$(realpath -s "$candidate"); break; fi
done

if [[ -z $torch_python ]]; then
  present module ensurepip ||
    die 2 "torch is to go into a virtual environment, and Debian 12 keeps what makes one apart; run: sudo apt-get install --no-install-recommends python3-venv"
  say "installing torch into .venv (a 530 MB download, one to three minutes)"
  # A half-made .venv of an interrupted run is brought to its end by the same two commands.
  "$python" -m venv .venv >>$log 2>&1 ||
    die 1 "could not make a virtual environment with $python (is python3-venv installed?); see $log"
  .venv/bin/python -m pip install --quiet --no-deps --disable-pip-version-check \
      -r tools/requirements/python.txt >>$log 2>&1 ||
    die 1 "pip could not install torch ($(grep -i '^error' $log | tail -n 1)); is the network there? See $log"
  torch_python=$PWD/.venv/bin/python
  found=$(torch_of "$torch_python") || die 1 "torch was installed but is not usable: $(tail -n 1 $log)"
  echo "$wanted_pins" >.venv/zeroshard-pins
fi

echo "$torch_python" >$state/torch_python

# --- What the Python tests run --------------------------------------------------------------------
# Only our own .venv is changed; in another environment that is the user's to do.
pip_install=(-m pip install --quiet --disable-pip-version-check -r tools/requirements/python_tests.txt)
finished=yes
if [[ $extra == python ]]; then
  if [[ $torch_python == "$PWD/.venv/bin/python" ]] &&
     [[ $(cat .venv/zeroshard-test-pins 2>/dev/null) != "$(cksum <tools/requirements/python_tests.txt)" ]]; then
    say "installing what the Python tests run into .venv (about 2 GB, one to three minutes)"
    if "$torch_python" "${pip_install[@]}" >>$log 2>&1; then
      cksum <tools/requirements/python_tests.txt >.venv/zeroshard-test-pins
    else
      finished=no
      say "going on without the Python tests: pip failed ($(grep -i '^error' $log | tail -n 1); see $log)"
    fi
  elif ! missing=$("$torch_python" tools/missing_packages.py tools/requirements/python_tests.txt); then
    finished=no
    say "going on without the Python tests: $missing; to have them run: $torch_python ${pip_install[*]}"
  fi
fi

[[ $finished == no ]] || echo "$key" >"$stamp"
say "ready: torch $(sed -n 2p <<<"$found") of $torch_python"
