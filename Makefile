# The commands of the project. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The tools are modules of their own, so that their dependencies stay out of Bellerophon's.
# They are built outside of go.work. They run in it, because the published modules find each other only there.
LINT := '$(CURDIR)/bin/golangci-lint' run --config='$(CURDIR)/.golangci.yml'
GENERATE := '$(CURDIR)/bin/controller-gen'

# Everything else uses the go.work of this checkout, whatever the environment says. The
# pattern `work` stands for all packages of its modules.
export GOWORK :=

# The first run builds a control plane; the tests of each package share one cluster.
TEST_TIMEOUT := 40m
TEST_FLAGS ?=

.PHONY: help run test generate lint tidy site release bench bench-medium bench-full bench-operators bench-core bench-pairs build faults matrix day-two fuzz advisories clean

help: ## Show this.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Start a local cluster, the operator and samples. Ctrl-C ends it.
	@exec bin/bellerophon up

test: build ## Run all tests.
	@bin/bellerophon cluster --build-only
	go test -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) work
	@# The go command does not notice when a test's files outside of its module change.
	go test -count=1 $(TEST_FLAGS) -run 'OfTheDocuments|OfThePage' ./bellerophon ./bench ./bench/pairs
	@# The links of all documents. The module is outside of go.work.
	cd tools/site && GOWORK=off go test -count=1 .

build: ## Build the command, bin/bellerophon.
	@echo 'building bin/bellerophon (the first time takes a few minutes)'
	@go build -o bin/bellerophon ./bellerophon

bin/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	GOWORK=off go build -C tools/lint -o '$(CURDIR)/$@' github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/controller-gen: tools/generate/go.mod tools/generate/go.sum
	GOWORK=off go build -C tools/generate -o '$(CURDIR)/$@' sigs.k8s.io/controller-tools/cmd/controller-gen

bin/govulncheck: tools/advisories/go.mod tools/advisories/go.sum
	GOWORK=off go build -C tools/advisories -o '$(CURDIR)/$@' golang.org/x/vuln/cmd/govulncheck

generate: bin/controller-gen ## Generate deep copies, resource definitions and the role.
	cd bellerophon && $(GENERATE) object paths=./api/...
	cd bellerophon && $(GENERATE) crd rbac:roleName=bellerophon-operator paths=./api/simple/... paths=./simple/... \
		output:crd:dir=../charts/bellerophon-operator/crds output:rbac:dir=../charts/bellerophon-operator/files
	cd bellerophon && $(GENERATE) crd rbac:roleName=heroes paths=./api/hero/... paths=./hero/... \
		output:crd:dir=../charts/bellerophon-operator/files/heroes output:rbac:dir=../charts/bellerophon-operator/files/heroes
	$(GENERATE) object crd paths=./controller/examples/heroes/api output:crd:dir=controller/examples/heroes/crd
	$(GENERATE) object crd paths=./controller/examples/webhooks/api/... output:crd:dir=controller/examples/webhooks/crd

site: ## Render the documents as bin/site/index.html, and check their links.
	@rm -rf bin/site
	@cd tools/site && GOWORK=off go run . --root '$(CURDIR)' --out '$(CURDIR)/bin/site'

lint: bin/golangci-lint ## Check the code with golangci-lint.
	$(LINT)
	cd bellerophon && $(LINT)
	cd bench && $(LINT)
	cd controller/tracing && $(LINT)
	cd controller/compat && $(LINT)
	for operator in controller/compat/*/go.mod; do (cd "$$(dirname "$$operator")" && GOWORK=off $(LINT)); done
	cd controller/examples/hooks && $(LINT)
	cd tools/release && $(LINT)
	cd tools/site && GOWORK=off $(LINT)
	@# A peer imports its framework, and starts goroutines as that recommends.
	for peer in bench/peers/*/go.mod; do (cd "$$(dirname "$$peer")" && GOWORK=off $(LINT) --disable=depguard,forbidigo); done

# The modules that require the library and are published. They have no replace directives, as `go install` takes
# no module that has some, so a copy of their module files is tidied, which gets one.
PUBLISHED := bellerophon controller/compat controller/tracing
LIBRARY := github.com/bellerophon-io/bellerophon
# -diff changes nothing, and fails where there is something to tidy.
TIDY_FLAGS ?=

tidy: ## Tidy the files go.mod and go.sum of all modules.
	@git ls-files go.mod '*/go.mod' | while read -r file; do \
		module=$$(dirname "$$file"); \
		case ' $(PUBLISHED) ' in *" $$module "*) ;; *) GOWORK=off go -C "$$module" mod tidy $(TIDY_FLAGS); continue;; esac; \
		copy=$$(mktemp -d); cp "$$module"/go.mod "$$module"/go.sum "$$copy"; \
		go mod edit -replace='$(LIBRARY)=$(CURDIR)' "$$copy/go.mod"; \
		GOWORK=off go -C "$$module" mod tidy $(TIDY_FLAGS) -modfile="$$copy/go.mod"; \
		go mod edit -dropreplace='$(LIBRARY)' "$$copy/go.mod"; \
		cp "$$copy"/go.mod "$$copy"/go.sum "$$module"; rm -r "$$copy"; \
	done

# RELEASE_FLAGS can choose fewer platforms: --platforms linux/amd64.
RELEASE_FLAGS ?=

release: ## Build the files of VERSION into bin/release-VERSION, twice, and compare them.
	@test -n '$(VERSION)' || { echo 'give the version, such as make release VERSION=v0.1.0'; exit 2; }
	go run ./tools/release build '$(VERSION)' --out 'bin/release-$(VERSION)' --check $(RELEASE_FLAGS)

# A run that was interrupted, or ended at its limit, goes on with OUT=<its folder>.
OUT ?= bin/bench-$(shell date +%Y%m%d-%H%M%S)
CONTENDERS ?= all

# LIMIT is how long the rounds may take. On two cores 14 minutes are one turn of all
# contenders in the small sizes, and 45 about two of the medium ones. A run that goes on
# makes more turns, up to eight.
bench: LIMIT ?= 14m20s
bench: FLAGS = --contenders $(CONTENDERS) --scenarios small --turns 8 --limit $(LIMIT)
bench: ## Compare operators, small sizes; under 15 minutes once all are built and checked.

bench-medium: LIMIT ?= 45m
bench-medium: FLAGS = --contenders $(CONTENDERS) --scenarios medium --ideal 200 --turns 8 --limit $(LIMIT)
bench-medium: ## Compare operators, medium sizes; 45 minutes each time, five hours for all turns.

bench-full: FLAGS = --full --warm --workers 1,8,32 --memory 1Gi,512Mi,256Mi,128Mi,64Mi --turns 8 --ideal 500
bench-full: ## Compare all operators in all scenarios, large sizes and sweeps; some days.

bench bench-medium bench-full:
	@mkdir -p bin
	@go build -o bin/bench ./bench
	@out=$(OUT); bin/bench run $(FLAGS) --out $$out && bin/bench report $$out && bin/bench goals $$out

bench-operators: ## Run the benchmarks of the pipeline.
	go test -run '^$$' -bench . -benchmem ./streams ./operators ./bench/pipeline

bench-core: ## Compare the core with client-go, side by side; under 10 minutes.
	@mkdir -p bin
	@go build -o bin/bench-core ./bench/corebench
	@bin/bench-core

BASE ?= HEAD~1

bench-pairs: ## Compare the speed of HEAD with that of BASE, in paired runs; under 45 minutes.
	go run ./bench/pairs --base $(BASE)

# With FAULTS, its flags replace all runs. docs/faults.md lists them, and how a run goes on in slices.
FAULTS ?=

faults: ## Put operators through kills, stale views and disturbed streams; under 20 minutes.
	@mkdir -p bin
	@bin/bellerophon cluster --build-only 2>/dev/null || go run ./bellerophon cluster --build-only
	@status=0; : >bin/faults.log; \
		run() { go test -count=1 -v -timeout 10h "$$@" >>bin/faults.log 2>&1 || status=$$?; }; \
		if [ -n '$(FAULTS)' ]; then run ./faults/patterns -args $(FAULTS); else \
			run ./faults/patterns -args -operators=bellerophon -sample=15 -limit=60s -quiet=60s; \
			run ./faults/patterns -args -operators=several,jobset,controller-runtime,tutorial -sample=5 -limit=10s -quiet=5s; \
			run ./bellerophon/simple/states -run TheStateSpace -args -walks=20; \
			run ./controller/internal/election -run KilledFrozen -args -failovers=6; \
			run ./controller -run 'ReplicasAsProcesses|NoForeignChange' -args -share-kills=3 -schedules=200000; \
			run ./bellerophon/simple/seeded -run EachSeededBug -args -bugs='^stale-patch'; fi; \
		grep -E '^table' bin/faults.log | cut -f2-; grep -E '^goal' bin/faults.log; \
		[ $$status = 0 ] || { echo 'a fault was not survived: see bin/faults.log'; exit $$status; }

# The minor versions of Kubernetes with a module file in tools/controlplane.
MATRIX ?= $(sort $(patsubst tools/controlplane/kubernetes-%.mod,%,$(wildcard tools/controlplane/kubernetes-*.mod)) \
	$(shell sed -n 's/^\tk8s.io.kubernetes v\(1\.[0-9]*\)\..*/\1/p' tools/controlplane/go.mod))

matrix: build ## Check each version of Kubernetes with the conformance suite and a sample of the faults.
	@failed=0; for minor in $(MATRIX); do \
		export BELLEROPHON_KUBERNETES="$$minor"; log="bin/matrix-$$minor.log"; : >"$$log"; \
		bin/bellerophon cluster --build-only || failed=1; \
		for check in './bench/conformance -run Contenders -args -contender=bellerophon' \
			'./faults/patterns -args -operators=bellerophon -sample=15 -limit=60s -quiet=60s'; do \
			if go test -count=1 -v -timeout 1h $$check >>"$$log" 2>&1; then said=passed; else said=failed; failed=1; fi; \
			printf 'Kubernetes %s\t%s\t%s\n' "$$minor" "$${check%% *}" "$$said"; \
		done; \
		grep -hE '^ *([a-z_]+\.go:[0-9]+: )?[0-9]+\.[0-9]+ |^goal' "$$log" || true; \
	done; exit $$failed

# With DAYTWO, its flags replace the sample; DAYTWO_NODE does so for the real node. docs/heroes.md lists them, and how a run goes on in slices.
DAYTWO_NODE ?= -real-runs=1
DAYTWO ?= -runs=4 -bootstraps=20 -kill-sample=15 -conversions=100000

day-two: ## Put heroes through kills, rollouts and lost volumes; under 20 minutes.
	@mkdir -p bin
	@bin/bellerophon cluster --build-only 2>/dev/null || go run ./bellerophon cluster --build-only
	@status=0; go test -count=1 -v -timeout 10h ./bellerophon/hero -run 'DayTwo|KilledAtEachWrite|ThereAndBack|StateSpace' -args $(DAYTWO) >bin/day-two.log 2>&1 || status=$$?; \
		go test -count=1 -v -timeout 10h ./bellerophon/image -run DayTwo -args $(DAYTWO_NODE) >>bin/day-two.log 2>&1 || status=$$?; \
		grep -E '^goal|no real node can run' bin/day-two.log; \
		[ $$status = 0 ] || { echo 'a goal was missed: see bin/day-two.log'; exit $$status; }

# How long each fuzz target runs. No target begins after FUZZ_LIMIT seconds. The first one is the target number FUZZ_FROM,
# modulo their number, so that runs with a limit reach all of them in turn.
FUZZ_TIME ?= 10s
FUZZ_LIMIT ?= 86400
FUZZ_FROM ?= 0

fuzz: ## Run each fuzz target for FUZZ_TIME, default 10s; the first run compiles for minutes.
	@targets=$$(git ls-files '*_test.go' | xargs grep -o '^func Fuzz[A-Za-z]*' | sed 's,/[^/]*:func , ,'); \
	from=$$(($(FUZZ_FROM) % $$(wc -l <<<"$$targets"))); \
	{ tail -n +$$((from + 1)) <<<"$$targets"; head -n "$$from" <<<"$$targets"; } | while read -r folder target; do \
		if [ "$$SECONDS" -ge '$(FUZZ_LIMIT)' ]; then printf 'left out after %s s: ' '$(FUZZ_LIMIT)'; fi; \
		printf '%s in %s\n' "$$target" "$$folder"; \
		[ "$$SECONDS" -ge '$(FUZZ_LIMIT)' ] || go test -run '^$$' -fuzz "^$$target$$" -fuzztime '$(FUZZ_TIME)' "./$$folder" </dev/null; \
	done

advisories: bin/govulncheck ## Look up the advisories for the dependencies of all modules.
	@git ls-files go.mod '*/go.mod' | grep -v '^tools/' | { failed=0; while read -r file; do \
		printf 'advisories for %s\n' "$$(dirname "$$file")"; \
		(cd "$$(dirname "$$file")" && '$(CURDIR)/bin/govulncheck' ./... </dev/null) || failed=1; \
	done; exit $$failed; }

clean: ## Remove what was built here. The control plane stays in the user's cache directory.
	rm -rf bin
