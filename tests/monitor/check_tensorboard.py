"""Lets the real TensorBoard read an event file of ours: check_tensorboard.py <write_events>

Ends with 77, which ctest takes for "skipped", where TensorBoard is not installed.
"""
import struct
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("TensorBoard is not installed: pip install tensorboard")
    sys.exit(77)

STEPS = 50


def to_float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder, str(STEPS)], check=True)
        events = EventAccumulator(folder + "/job")
        events.Reload()
        expected = {
            "Train/Samples/train_loss": lambda step: 1 / (step + 1),
            "Train/Samples/lr": lambda step: 1e-4,
            "Train/Samples/loss_scale": lambda step: 65536.0,
        }
        assert sorted(events.Tags()["scalars"]) == sorted(expected), events.Tags()
        assert events.file_version == 2.0, events.file_version
        for tag, value in expected.items():
            read = [(point.step, point.value) for point in events.Scalars(tag)]
            assert read == [(64 * s, to_float32(value(s))) for s in range(STEPS)], (tag, read)
        print(f"{len(expected)} series of {STEPS} points read back")


main()
