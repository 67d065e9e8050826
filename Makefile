# make test   all tests, with the race detector
# make ci     what must hold before a change lands
# make bench  the library beside its peers, pipelines, and a map beside GNU parallel
# make chaos  the long form of the kill test
GO ?= go
FUZZTIME ?= 300x

.PHONY: all test short lint darwin examples fuzz bench bench-build bench-startup bench-throughput chaos checks ci build

all: build

# One static file, which starts faster than one that the system has to link.
build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bide ./cmd/bide

# Needs Go and git, nothing else; modules are fetched by go itself.
test:
	@echo "Go fetches the modules that are missing; nothing else is installed."
	$(GO) test -race -vet=off -timeout 20m ./...

short:
	$(GO) test -short ./...

lint:
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo "run gofmt -w on these files"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

darwin:
	GOOS=darwin $(GO) vet ./...

examples:
	$(GO) run ./cmd/bide check examples/*.yml examples/*.cst examples/flaky/*.yml examples/flaky/*.cst
	$(GO) run ./cmd/bide run examples/quickstart.yml
	$(GO) run ./cmd/bide run examples/search.cst --input query=backoff --input limit=5
	$(GO) run ./cmd/bide run examples/flaky/answers.cst
	$(GO) run ./cmd/bide run examples/flaky/pages.cst

# Every fuzz target of every package, FUZZTIME each: a number of runs, or a time.
fuzz:
	@set -e; grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' --exclude-dir=bench . | sed 's/:func / /' | while read file name; do \
	  echo "fuzz $$(dirname $$file) $$name"; \
	  $(GO) test -vet=off -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$(dirname $$file); \
	done

bench-build:
	cd bench && $(GO) vet ./... && $(GO) test -run '^$$' ./...

bench:
	cd bench && $(GO) run . && $(GO) run ./pipeline && $(GO) run ./throughput -quick

# What a run of one step adds to the shortest command.
bench-startup:
	cd bench && $(GO) run ./startup $(BENCHFLAGS)

# A map over 10,000 short commands beside bare process starts and GNU parallel;
# BENCHFLAGS="-long -check" also runs what takes minutes, and fails on a promise
# that is not met.
bench-throughput:
	cd bench && $(GO) run ./throughput $(BENCHFLAGS)

chaos:
	BIDE_CHAOS=500 $(GO) test -run 'Killed|Disk|TruncatedJournal' -timeout 60m -v ./internal/engine

# The tests wait for much of their time, which the other checks use. Each of the
# two lists goes from the first to the last.
ci:
	$(MAKE) -j2 test checks

checks:
	$(MAKE) -j1 lint darwin examples bench-build fuzz
