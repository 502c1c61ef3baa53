// The states of torch's random generators on this rank, for checkpoints.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/checkpoint/save_contents.h"
#include "zeroshard/device/device.h"

namespace zeroshard {

// "rng.cpu", and on an accelerator "rng.cuda".
std::vector<BlobToSave> rng_blobs(Device device);

// Puts the generators back to where they were; `read` gives a blob of this rank's, or nothing: then
// the generator stays as it is.
using ReadBlob = std::function<std::optional<std::string>(const std::string& name)>;
void restore_rng(Device device, const ReadBlob& read);

}  // namespace zeroshard
