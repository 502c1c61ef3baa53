# The verbs; the work is in tools/. `make help` lists them.
PYTHON ?= python3
PREFIX ?= /usr/local
SECONDS_PER_TARGET ?= 60
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-avx2 test-torch bench fast build wheel setup install uninstall format tidy fuzz docs clean

help:  ## list these verbs
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## */  make \1|/' \
	  | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: setup  ## set up, build, and train a small model on two ranks (first time: about 5 minutes and the download)
	@ZEROSHARD_UNITY=$${ZEROSHARD_UNITY-1} tools/build.sh release zeroshard_cli zeroshard_train
	@tools/demo.sh

test:  ## set up, build, and run every test but the slow ones (first time: about 30 minutes)
	@tools/test.sh full

test-slow:  ## run the tests labelled slow, then all others with AVX2 alone, then test-torch
	@tools/test.sh slow

test-avx2:  ## run every test but the slow ones as on a CPU without AVX-512 (part of test-slow)
	@tools/test.sh avx2

bench: build  ## train beside DDP, FSDP2 and DeepSpeed; the table goes to bench/results/ (installs the peers once: 3 GB)
	@$(PYTHON) bench/train_vs_peers.py

test-torch:  ## build and test with another torch, in an environment of its own: TORCH=2.13.0 (default: the newest; first time: about 45 minutes)
	@tools/test_torch.sh $(TORCH)

fast:  ## the quick set: gates, build, torch-free tests
	@tools/test.sh fast

build: setup  ## build everything; the program is build/zeroshard
	@tools/build.sh release

setup:  ## install what is missing: Debian packages, torch in .venv (does nothing the second time)
	@tools/setup.sh

wheel: setup  ## a wheel for this torch that installs without a compiler, into dist/ (first time: about 5 minutes)
	@tools/make_wheel.sh

install: build  ## install below PREFIX (default /usr/local)
	@$(PYTHON) tools/install.py install "$(PREFIX)"

uninstall:  ## remove what `make install` put below PREFIX
	@$(PYTHON) tools/install.py uninstall "$(PREFIX)"

format:  ## rewrite the C++ files in the house format
	@$(PYTHON) tools/check_format.py --fix

tidy: build  ## clang-tidy over the torch-free folders (unchanged files are not checked again)
	@$(PYTHON) tools/run_tidy.py

fuzz: setup  ## run each fuzz target for SECONDS_PER_TARGET seconds (default 60)
	@tools/build.sh fuzz
	@$(PYTHON) tools/run_fuzz.py --seconds $(SECONDS_PER_TARGET)

docs: build  ## write the table of configuration keys into docs/config.md, and what the planner says into docs/stages.md and scaling.md
	@$(PYTHON) tools/write_config_doc.py
	@$(PYTHON) tools/write_stages_doc.py
	@$(PYTHON) tools/write_scaling_doc.py

clean:  ## remove all build folders (.venv stays; delete it by hand to set up torch again)
	@rm -rf build build-*
	@echo "clean: removed build folders"
