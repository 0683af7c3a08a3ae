# make demo: set up, build, and run the main job.  make test: set up, build, and run every test and check.

.PHONY: all setup build demo test lint format lock clean
all: build

setup:
	@deploy/setup.sh

build: setup
	@echo "== building"
	@cmake --build --preset release

demo: build
	@.venv/bin/python examples/demo/demo.py

test: build
	@echo "== C++ tests"
	@ctest --preset release --parallel 2 --progress
	@echo "== Python tests"
	@.venv/bin/python -m pytest -q tests/python
	@$(MAKE) --no-print-directory lint

lint: build
	@echo "== format, types and layout"
	@deploy/lint.sh

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

# After a change of python/requirements.in (needs uv on the path).
lock:
	@cd python && uv pip compile --python-version 3.11 --generate-hashes --no-header --no-annotate requirements.in -o requirements.lock

clean:
	@rm -rf build
