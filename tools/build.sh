#!/usr/bin/env bash
# tools/build.sh PRESET [TARGET...]: configures if need be, then builds. Presets: CMakePresets.json.
#
# In:  ZEROSHARD_BUILD_FOLDER (default: the preset's), ZEROSHARD_TORCH_PYTHON (default: what
#      tools/setup.sh found), ZEROSHARD_EXTRA_PREFIX, JOBS
#      ZEROSHARD_UNITY: 1 compiles several files as one where the folder is new, 0 one by one again
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1; shift
folder=build; [[ $preset == release ]] || folder=build-$preset
folder=${ZEROSHARD_BUILD_FOLDER:-$folder}
jobs=${JOBS:-$(nproc)}

arguments=()
torch_python=${ZEROSHARD_TORCH_PYTHON:-$(cat build/setup/torch_python 2>/dev/null || true)}
[[ -n $torch_python ]] && arguments+=("-DZEROSHARD_TORCH_PYTHON=$torch_python")
[[ -n ${ZEROSHARD_EXTRA_PREFIX:-} ]] && arguments+=("-DZEROSHARD_EXTRA_PREFIX=$ZEROSHARD_EXTRA_PREFIX")

# A tree that was copied or moved keeps a cache that names the old place; CMake refuses it.
if [[ -f $folder/CMakeCache.txt ]] &&
   ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" $folder/CMakeCache.txt; then
  rm -rf $folder/CMakeCache.txt $folder/CMakeFiles $folder/build.ninja
fi
# Several files compiled as one take half the time. That is for a folder in which all is built once;
# who edits files wants them one by one. A folder stays as it was made until it is asked for 0.
joined=()
if [[ ${ZEROSHARD_UNITY:-} == 1 && ! -f $folder/build.ninja ]]; then
  joined=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=6)
elif [[ ${ZEROSHARD_UNITY:-} == 0 ]] && grep -qs '^CMAKE_UNITY_BUILD:.*=ON' $folder/CMakeCache.txt; then
  cmake -DCMAKE_UNITY_BUILD=OFF $folder >$folder/configure.log
fi
# Ninja runs CMake again when a CMake file changes; only our own arguments are ours to watch.
mkdir -p $folder
if [[ ! -f $folder/build.ninja || $(cat $folder/configured 2>/dev/null) != "${arguments[*]-}" ]]; then
  echo "build: configuring $preset in $folder/"
  if ! cmake --preset "$preset" -B $folder "${arguments[@]}" "${joined[@]}" >$folder/configure.log 2>&1; then
    cat $folder/configure.log >&2
    echo "build: configuring $preset failed" >&2
    exit 1
  fi
  grep '^-- ZeroShard' $folder/configure.log || true
  echo "${arguments[*]-}" >$folder/configured
fi

targets=("$@")
build() {
  if [[ ${#targets[@]} -gt 0 || $preset == release ]]; then
    cmake --build $folder --parallel "$jobs" ${targets[@]+--target "${targets[@]}"}
  else
    cmake --build --preset "$preset" --parallel "$jobs"
  fi
}
if ! build; then
  # Two files that use one name in their unnamed namespaces are no mistake; a true one shows again.
  grep -q '^CMAKE_UNITY_BUILD:.*=ON' $folder/CMakeCache.txt || exit 1
  echo "build: once more, file by file"
  cmake -DCMAKE_UNITY_BUILD=OFF $folder >$folder/configure.log && build
fi
