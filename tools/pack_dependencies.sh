#!/usr/bin/env bash
# tools/pack_dependencies.sh FOLDER: copies the libraries we build on (headers, and GoogleTest's
# static libraries) into FOLDER, for a machine that has a compiler and torch but no network:
#   ZEROSHARD_EXTRA_PREFIX=FOLDER make build
set -euo pipefail
folder=${1:?usage: tools/pack_dependencies.sh FOLDER}
mkdir -p "$folder/include" "$folder/lib"
for part in fmt rapidjson CLI gtest gmock; do
  [[ -d /usr/include/$part ]] && cp -r "/usr/include/$part" "$folder/include/"
done
cp /usr/include/xxhash.h "$folder/include/"
for library in libgtest.a libgtest_main.a; do
  cp "$(g++ -print-file-name=$library)" "$folder/lib/"
done
echo "packed $(du -sh "$folder" | cut -f 1) into $folder"
