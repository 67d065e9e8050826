# make test   all tests, with the race detector
# make ci     what must hold before a change lands
# make bench  all benchmarks in their short form, and one table of every figure that has a goal
# make foresight  the simulator beside theory and real runs
# make cluster  runs on Temporal against a real server
# make chaos KILLS=10000  real kills, and what becomes of the runs
# make chaos-events  runs killed at each of their events
# make enumerate  every effect of a run fails, and the power is cut at each
# make powercuts  the power is cut on a real file system
# make simulate-runs SEEDS=100000  whole runs, each from a seed
GO ?= go
FUZZTIME ?= 300x

.PHONY: api enumerate powercuts simulate-runs bounds bide-temporal cluster cluster-million cluster-short cluster-check fuzz-short foresight docs pictures contrib all test short lint darwin examples fuzz bench bench-build bench-startup bench-throughput chaos chaos-events checks machines ci build release release-check

all: build

# One static file, which starts faster than one that the system has to link.
build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bide ./cmd/bide

# The part of bide that speaks with Temporal, a program and a module of its own: its
# SDK takes a minute to compile, and would make bide twice as large.
bide-temporal:
	cd cmd/bide-temporal && CGO_ENABLED=0 $(GO) build -trimpath -o ../../bide-temporal .

# Runs on many machines, against a real server where its program is there: temporal,
# on PATH or where go install puts it. make ci runs the short form. BIDE_CLUSTER leaves
# out the tests without a server, which cluster-check has run.
cluster: cluster-check
	BIDE_CLUSTER_GIT=1 $(GO) test -vet=off -run "Git" ./internal/cluster
	cd cmd/bide-temporal && BIDE_CLUSTER=long $(GO) test -vet=off -timeout 30m -v ./...

cluster-short: cluster-check
	cd cmd/bide-temporal && BIDE_CLUSTER=short $(GO) test -vet=off -timeout 20m ./...

# A million items, a worker killed each minute, the server once. CLUSTER_ITEMS are
# fewer; what happens is in cluster-million.log.
CLUSTER_ITEMS = 1000000
cluster-million:
	@cd cmd/bide-temporal && BIDE_CLUSTER_ITEMS=$(CLUSTER_ITEMS) $(GO) test -vet=off -timeout 12h -v -run '^TestMillion$$' . > ../../cluster-million.log 2>&1; status=$$?; cat ../../cluster-million.log; exit $$status

# workflowcheck says whether the workflow could decide otherwise when it is replayed.
# The tests without a server run with the race detector, many at once, as most of them wait.
# For darwin and for the detector, bide itself is compiled already; what is compiled to be
# released is not in checks.work.
WITHBIDE = GOWORK=$(CURDIR)/cmd/bide-temporal/checks.work
cluster-check:
	cd cmd/bide-temporal && $(GO) vet ./... && GOOS=darwin $(WITHBIDE) $(GO) vet $(UNRUN) ./... && $(GO) tool workflowcheck -config workflowcheck.yml .
	cd cmd/bide-temporal && $(WITHBIDE) CGO_ENABLED=1 GOFLAGS= $(GO) test $(RACE) -short -vet=off -timeout 20m -parallel 16 ./...

# Needs Go and git, nothing else; modules are fetched by go itself. More than a third of
# the time from an empty cache is the compiler's: it and the linker make no tables for
# debuggers (which stack traces do not need), and it, the tests and the checks collect
# their garbage less often: staticcheck takes half the time, the compiler a sixth less.
# The database is C that was translated: to watch every word of memory that it touches
# takes a third of the time of all tests, and finds nothing of ours. And the detector
# would have each test program sleep for a second when it ends well. Paths are trimmed, so
# that what is compiled serves every clone. Three packages at once, as tests wait for much
# of their time.
RACE = -race -trimpath -gcflags=all=-dwarf=false -gcflags='modernc.org/...=-race=false -d=checkptr=0 -dwarf=false'
test checks machines: export GOGC = 400
test: export GORACE = atexit_sleep_ms=0
test:
	@echo "Go fetches the modules that are missing; nothing else is installed."
	$(GO) test $(RACE) -ldflags=-w -vet=off -timeout 20m -p 3 -parallel 8 ./internal/engine ./internal/cli ./internal/simulate ./...

short:
	$(GO) test -short ./...

lint:
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo "run gofmt -w on these files"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

# What the detector is in the way of: an adversary of the simulator looks further
# without it, the pages' simulations take eight times as long with it, what a hostile
# workflow file may take is measured, a whole run takes seven times as long with it, so that it
# has a tenth of the seeds, a map of many that wait has one goroutine, and a resume of many
# items reads its journal once.
bounds:
	$(GO) test -vet=off -run 'Foresight|ExplainBounds' ./internal/simulate
	$(GO) test -vet=off -run '^TestReadme$$/^simulate.md$$' ./internal/cli
	$(GO) test -vet=off -run '^TestWorst$$' ./internal/workflow
	$(GO) test -vet=off -run '^TestWholeRuns|^TestResumeReadsTheJournalOnce$$' ./internal/engine
	$(GO) test -vet=off -run '^TestManyWait$$' ./internal/cluster

# Nothing of it is run: the compiler, which vet needs for the types, optimizes nothing.
UNRUN = -gcflags=all='-N -l -dwarf=false'
darwin:
	GOOS=darwin $(GO) vet $(UNRUN) ./...

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

# Its short form, one of the checks: without the coverage of all that is compiled for
# it, which takes longer than the runs, and with twice as many of them instead.
fuzz-short:
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(GO) test -vet=off -c -o "$$dir/" $$(grep -rl --include='*_test.go' --exclude-dir=bench '^func Fuzz' . | xargs -n1 dirname | sort -u); \
	grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' --exclude-dir=bench . | sed 's/:func / /' > "$$dir/targets"; \
	while read file name; do \
	  package=$$(dirname $$file); echo "fuzz $$package $$name"; \
	  (cd $$package && "$$dir/$$(basename $$package).test" -test.run '^$$' -test.fuzz "^$$name\$$" -test.fuzztime 600x -test.fuzzminimizetime 10x -test.fuzzcachedir "$$dir/$$name") || exit 1; \
	done < "$$dir/targets"

# The modules of their own below contrib/ against real servers on the loopback (the examples
# for containers are read by the tools that they are for), and
# telemetry against the receiver of the OpenTelemetry collector and Prometheus'
# parser and linter. The compiler optimizes nothing of what others wrote, which takes half
# the time.
OTHERS = $(foreach x,k8s.io go.opentelemetry.io google.golang.org golang.org github.com,-gcflags='$(x)/...=-N -l -dwarf=false') -gcflags='github.com/bide-dev/...='
contrib:
	@set -e; for module in contrib/*/ internal/telemetry/collector/; do echo $$module; (cd $$module && $(GO) vet $(OTHERS) ./... && $(GO) test $(OTHERS) -vet=off ./...); done

bench-build:
	cd bench && $(GO) vet ./... && $(GO) test -vet=off -run '^$$' ./...

bench:
	cd bench && $(GO) run ./all -quick $(BENCHFLAGS)

# What a run of one step adds to the shortest command.
bench-startup:
	cd bench && $(GO) run ./startup $(BENCHFLAGS)

# A map over 10,000 short commands beside bare process starts and GNU parallel;
# BENCHFLAGS="-long -check" also runs what takes minutes, and fails on a promise
# that is not met.
bench-throughput:
	cd bench && $(GO) run ./throughput $(BENCHFLAGS)

# Real kills: the program that make build makes is ended by SIGKILL so often, alone, with
# its git, or with all processes of its run, and its runs are resumed until they end. 45 in a
# hundred kills are aimed at calls of git in isolated maps. What the branch and the results
# must be is read from the plan of a run. One line says what it came to, and the seed, which
# SEED sets; PARALLEL bounds how many of the four tests run at once.
KILLS = 10000
PARALLEL = 4
chaos: build
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(GO) test -vet=off -c -o "$$dir/engine.test" ./internal/engine && cd internal/engine && \
	BIDE_CHAOS=$(KILLS) BIDE_CHAOS_SEED=$(SEED) BIDE_CHAOS_PROGRAM="$(CURDIR)/bide" "$$dir/engine.test" -test.parallel $(PARALLEL) \
	  -test.run '^(TestKilledInGit|TestKilledAtRandomAndResumed|TestPipelinesKilledAtRandom|TestStandardWorkflowKilledAtRandom)$$'

# The tests of kills and full disks that go through all places of a run: each of its events.
chaos-events:
	BIDE_CHAOS=1 $(GO) test -run 'KilledAtEach|AKillChanges|AfterAKill|KilledAround|ItemsKilled|Disk|TruncatedJournal' -timeout 60m -v ./internal/engine

# Every effect of a run on files fails, or is the last one of its processes, and the power
# is cut at every one: see internal/engine/enumerate_test.go. Linux on amd64; the tests
# have a short form of it.
enumerate:
	BIDE_ENUMERATE=1 $(GO) test -vet=off -count=1 -timeout 4h -run 'TestEveryEffect|TestEveryPowerCut|TestEachPieceOfAWorktreeLost' ./internal/engine ./internal/worktree

# Power cuts at random moments on a real file system, so many for each scene: as root,
# on Linux, with mkfs.ext4 and loop devices.
POWER_CUTS = 150
powercuts:
	BIDE_POWER_CUTS=$(POWER_CUTS) $(GO) test -vet=off -count=1 -timeout 2h -v -run '^TestPowerCutsOnDisk$$' ./internal/engine

# Whole runs, each from a seed: random workflows under virtual ports, killed and gone on
# with, and looked at by an oracle. Their short form is one of the tests.
SEEDS ?= 10000
FIRST ?= 0
simulate-runs:
	BIDE_WHOLE_RUNS=$(SEEDS) BIDE_WHOLE_FROM=$(FIRST) GOGC=400 $(GO) test -vet=off -count=1 -timeout 120m -v -run '^TestWholeRuns$$' ./internal/engine

# What the simulator says beside theory and beside real runs: each figure with its
# bound. Its short form is one of the tests.
foresight:
	BIDE_FORESIGHT=1 $(GO) test -vet=off -count=1 -parallel 1 -timeout 60m -v -run 'Foresight|ExplainBounds|Pipeline' ./internal/simulate

# The tests wait for much of their time, which the other checks use, and those of many
# machines even more. Each of the three lists goes from the first to the last.
ci:
	$(MAKE) -j3 test checks machines

# All checks build as a release does, so that everything is compiled once for all of
# them; go compiles again what differs in these two.
checks machines: export CGO_ENABLED = 0
checks machines: export GOFLAGS = -trimpath
checks:
	$(MAKE) -j1 lint bounds darwin examples bench-build fuzz-short web-check browser release-check
machines:
	$(MAKE) -j1 cluster-short contrib

# api/go.txt, which has what the public packages export; a test compares it.
api:
	$(GO) test -vet=off ./internal/reference -run '^TestAPI$$' -args -make-api

# The pages of docs/reference, from the tables of the program, and the pictures that
# pages make; tests compare them.
docs:
	$(GO) test -vet=off ./internal/cli -run '^TestEveryReferencePageIsMade$$' -args -make-docs
	$(GO) test -vet=off ./internal/cli -run '^TestScreens$$' -args -make-screens
	$(GO) test -vet=off ./internal/cli -run '^TestReadme$$/^simulate' -args -make-docs

# The packages of a release in release/dist, and what release/README.md says is
# checked of them; nfpm is built first, which takes a minute or two.
release:
	cd release && $(GO) run . -out dist

release-check:
	cd release && $(GO) vet . && $(GO) run . -check

# The pictures of the terminal, docs/pictures/*.svg, from real runs.
pictures: build
	$(GO) run ./docs/pictures ./bide docs/pictures

# The dashboard's scripts and style, bundled by esbuild (a Go program; no node).
# What it writes is committed; web-check says whether it is up to date.
WEBDIST ?= ../dist
web:
	cd internal/web/build && $(GO) tool esbuild --bundle --minify --format=esm --target=es2022 --charset=utf8 --legal-comments=inline --log-level=warning --outdir=$(WEBDIST) ../ui/app.ts ../ui/worker.ts

web-check:
	@dir=$$(mktemp -d) && $(MAKE) -s web WEBDIST=$$dir && diff -rq $$dir internal/web/dist || { echo "internal/web/dist is not what internal/web/ui makes: run make web"; exit 1; }

# The dashboard in Chromium. Where there is none it is fetched from npm's registry
# (70 MB, its SHA-512 is known); where that fails, it says so and runs no test, and
# BIDE_NEED_BROWSER=1 makes that a failure.
browser: chromium
	cd internal/web/browser && $(GO) vet ./... && $(GO) test -vet=off -timeout 10m ./...

chromium:
	-@cd internal/web/browser && $(GO) run ./fetch

# The pictures of docs/dashboard.md: three real runs, every page, both themes.
screenshots: chromium
	cd internal/web/browser && $(GO) run ./shots -out ../../../docs/dashboard $(SHOTSFLAGS)
