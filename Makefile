# The commands of the project. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The tools are modules of their own, so that their dependencies stay out of Bellerophon's.
# They are outside of go.work, and -modfile does not work with it.
LINT := GOWORK=off go tool -modfile='$(CURDIR)/tools/lint/go.mod' golangci-lint run --config='$(CURDIR)/.golangci.yml'
GENERATE := GOWORK=off go tool -modfile='$(CURDIR)/tools/generate/go.mod' controller-gen

# Everything else uses the go.work of this checkout, whatever the environment says. The
# pattern `work` stands for all packages of its modules.
export GOWORK :=

# The first run builds a control plane; the tests of each package share one cluster.
TEST_TIMEOUT := 40m
TEST_FLAGS ?=

.PHONY: help run test generate lint bench bench-medium bench-full bench-operators bench-core bench-pairs build clean

help: ## Show this.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Start a local cluster, the operator and samples. Ctrl-C ends it.
	@exec bin/bellerophon up

test: build ## Run all tests.
	@bin/bellerophon cluster --build-only
	go test -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) work
	@# The go command does not notice when a test's files outside of its module change.
	go test -count=1 $(TEST_FLAGS) -run 'OfTheReadme|OfTheDocuments' ./bellerophon

build: ## Build the command, bin/bellerophon.
	@echo 'building bin/bellerophon (the first time takes a few minutes)'
	@go build -o bin/bellerophon ./bellerophon

generate: ## Generate deep copies, resource definitions and the role.
	cd bellerophon && $(GENERATE) object crd rbac:roleName=bellerophon-operator paths=./... \
		output:crd:dir=../charts/bellerophon-operator/crds output:rbac:dir=../charts/bellerophon-operator/files

lint: ## Check the code with golangci-lint.
	$(LINT)
	cd bellerophon && $(LINT)
	cd bench && $(LINT)
	@# A peer imports its framework, and starts goroutines as that recommends.
	cd bench/peers/controller-runtime && $(LINT) --disable=depguard,forbidigo

# A run that was interrupted, or ended at its limit, goes on with OUT=<its folder>.
OUT ?= bin/bench-$(shell date +%Y%m%d-%H%M%S)
CONTENDERS ?= all

# LIMIT is how long the rounds may take. On two cores 14 minutes are one turn of all
# contenders in the small sizes, and 45 about two of the medium ones. A run that goes on
# makes more turns, up to five.
bench: LIMIT ?= 14m20s
bench: SMALL = burst,steady:n=100:load=50,steady:n=20:load=10,start,restart,drift,idle:n=20:seconds=5
bench: FLAGS = --contenders $(CONTENDERS) --scenarios $(SMALL) --turns 5 --limit $(LIMIT)
bench: ## Compare operators, small sizes; under 15 minutes once all are built and checked.

bench-medium: LIMIT ?= 45m
bench-medium: MEDIUM = burst:n=1000,steady:n=300:load=50,steady:n=60:load=10,start:n=2000,restart:n=500,storm:n=200:m=10,drift:n=100,churn:n=100:m=300,idle:n=100:seconds=60
bench-medium: FLAGS = --contenders $(CONTENDERS) --scenarios $(MEDIUM) --ideal 200 --turns 5 --limit $(LIMIT)
bench-medium: ## Compare operators, medium sizes; 45 minutes each time, three hours for all turns.

bench-full: FLAGS = --full --warm --workers 1,8,32 --memory 1Gi,512Mi,256Mi,128Mi,64Mi --turns 5 --ideal 500
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

clean: ## Remove what was built here. The control plane stays in the user's cache directory.
	rm -rf bin
