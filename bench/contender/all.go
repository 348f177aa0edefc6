package contender

import (
	"strconv"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// The settings that contenders share by default.
const (
	noLimit  = "none"
	governed = "1 or all" // all while one is not enough
	allCores = "all"
	// javaHeap is the default of Java's -Xmx.
	javaHeap = "1/4 of the memory"
)

// Why contenders have no program with many kinds.
const (
	onlyEqual     = "only the equal form of its framework has a program with many kinds"
	noKinds       = "no program with many kinds was written for its framework"
	noControllers = "it is written for one kind, without a framework"
)

// all is the table of contenders, in report order. A new contender is one entry here and its program, a
// folder in bench/peers.
var all = []Contender{
	{
		Name: "bellerophon", Warmed: true, Resync: "none",
		Elects: true, Shares: true, OneNamespace: true,
		Defaults: rundir.Settings{Workers: "32", HeapLimit: noLimit, Processors: governed},
		Look:     Look{Light: "#0072B2", Dark: "#56B4E9"},
		recipe:   goProgram{folder: "bellerophon", pkg: "./bellerophon-operator", arguments: bellerophonArguments},
		kinds:    goProgram{folder: "bench", pkg: "./manykinds/process"},
		Series: map[string]string{
			"bench:events:rate": `sum by (contender) (rate(bellerophon_stage_items_total{stage="debounce",direction="in"}[5s]))`,
			"bench:objects":     `sum by (contender) (bellerophon_cache_objects{kind=~"BellerophonSimple[.].*"})`,
		},
	},
	{
		Name: "controller-runtime", NoKinds: onlyEqual, Resync: "10 h (cache.Options.SyncPeriod, its default)",
		Defaults: rundir.Settings{Workers: "1", HeapLimit: noLimit, Processors: allCores},
		Look:     Look{Light: "#D55E00", Dark: "#F07A2B"},
		recipe:   goProgram{folder: "bench/peers/controller-runtime", pkg: ".", library: "sigs.k8s.io/controller-runtime"},
	},
	{
		Name: "controller-runtime-tuned", NoKinds: onlyEqual, Framework: "controller-runtime", Form: Tuned, Resync: "10 h (cache.Options.SyncPeriod, its default)",
		Defaults: rundir.Settings{Workers: "32", HeapLimit: noLimit, Processors: allCores},
		Look:     Look{Light: "#B97900", Dark: "#E69F00", Dash: []int{8, 3}},
		recipe: goProgram{folder: "bench/peers/controller-runtime", pkg: ".", library: "sigs.k8s.io/controller-runtime",
			arguments: func(Settings) []string { return []string{"--tuned"} }},
	},
	{
		Name: "controller-runtime-equal", Framework: "controller-runtime", Form: Equal, Resync: "10 h (cache.Options.SyncPeriod, its default)",
		Elects:   true,
		Defaults: rundir.Settings{Workers: "32", HeapLimit: noLimit, Processors: governed},
		Look:     Look{Light: "#8C6D1F", Dark: "#D9B44A", Dash: []int{2, 2}},
		recipe: goProgram{folder: "bench/peers/controller-runtime", pkg: ".", library: "sigs.k8s.io/controller-runtime",
			arguments: func(Settings) []string { return []string{"--equal"} }},
		kinds: goProgram{folder: "bench/peers/controller-runtime", pkg: "./kinds", library: "sigs.k8s.io/controller-runtime"},
	},
	{
		Name: "kube-rs", NoKinds: noKinds, NoHeapLimit: "its runtime has no heap limit",
		Resync:   "1 h (each object is requeued that long after a success, as the documentation of Action::requeue recommends)",
		Defaults: rundir.Settings{Workers: "no limit", HeapLimit: noLimit, Processors: allCores},
		Look:     Look{Light: "#B0568C", Dark: "#E19BC4", Dash: []int{10, 3, 2, 3}},
		recipe:   cargoProgram{folder: "bench/peers/kube-rs", binary: "bellerophon-kube-rs", library: "kube"},
		Series:   kubeSeries,
	},
	{
		Name: "kube-rs-equal", NoKinds: noKinds, Framework: "kube-rs", Form: Equal, NoHeapLimit: "its runtime has no heap limit",
		Resync:   "1 h (each object is requeued that long after a success, as the documentation of Action::requeue recommends)",
		Defaults: rundir.Settings{Workers: "32", HeapLimit: noLimit, Processors: allCores},
		Look:     Look{Light: "#8E3B6E", Dark: "#C77BA8", Dash: []int{4, 2, 1, 2}},
		recipe:   cargoProgram{folder: "bench/peers/kube-rs", binary: "bellerophon-kube-rs", library: "kube", arguments: []string{"--equal"}},
		Series:   kubeSeries,
	},
	{
		Name: "quarkus", NoKinds: noKinds, Warmed: true, JVM: true, OneNamespace: true, NotMet: []string{"3.6"}, Notes: []string{
			"quarkus runs on a JVM: a native image needs a GraalVM JDK, which no package registry offers",
			"quarkus uses the newest Java Operator SDK whose core and Micrometer support were available; 5.5 was not",
		},
		Resync:   "10 h (maximal reconciliation interval, its default); the informers do not resync",
		Defaults: rundir.Settings{Workers: "50", HeapLimit: javaHeap, Processors: allCores},
		Look:     Look{Light: "#00805E", Dark: "#16C79A", Dash: []int{12, 4}}, metrics: "/q/metrics",
		recipe: mavenProgram{folder: "bench/peers/quarkus", artifacts: []string{"quarkus-app"},
			jar: "quarkus-app/quarkus-run.jar", libraries: []string{"operator-framework-core", "quarkus-core"}},
		Series: quarkusSeries,
	},
	{
		Name: "quarkus-container", NoKinds: noKinds, Framework: "quarkus", Form: Equal, Warmed: true, JVM: true, OneNamespace: true, NotMet: []string{"3.6"}, Notes: []string{
			"quarkus-container starts Java with the options of Quarkus' Dockerfile.jvm and with an archive of classes (AppCDS), but not in a container; both use the same Java",
		},
		Resync:   "10 h (maximal reconciliation interval, its default); the informers do not resync",
		Defaults: rundir.Settings{Workers: "50", HeapLimit: "80 % of the memory", Processors: allCores},
		Look:     Look{Light: "#1B6B57", Dark: "#5FD9B9", Dash: []int{6, 2, 2, 2}}, metrics: "/q/metrics",
		recipe: mavenProgram{folder: "bench/peers/quarkus", arguments: []string{"-Dquarkus.package.jar.appcds.enabled=true"}, artifacts: []string{"quarkus-app"},
			jar: "quarkus-app/quarkus-run.jar", libraries: []string{"operator-framework-core", "quarkus-core"},
			options: containerOptions, archive: "app-cds.jsa"},
		Series: quarkusSeries,
	},
	{
		Name: "tutorial", NoKinds: noControllers, Warmed: true, JVM: true, OneWorker: true, Resync: "none",
		Defaults: rundir.Settings{Workers: "1", HeapLimit: javaHeap, Processors: allCores},
		Look:     Look{Light: "#7A7A7A", Dark: "#A8A8A8", Dash: []int{3, 3}},
		recipe: mavenProgram{folder: "bench/peers/tutorial", artifacts: []string{"tutorial.jar", "lib"},
			jar: "tutorial.jar", libraries: []string{"kubernetes-client"}},
		Series: map[string]string{
			"bench:reconciles:rate":       `sum by (contender) (rate(tutorial_callback_seconds_count[5s]))`,
			"bench:failures:rate":         `sum by (contender) (rate(tutorial_callback_errors_total[5s]))`,
			"bench:reconcile_seconds:p50": `histogram_quantile(0.5, sum by (contender, le) (rate(tutorial_callback_seconds_bucket[5s])))`,
			"bench:reconcile_seconds:p99": `histogram_quantile(0.99, sum by (contender, le) (rate(tutorial_callback_seconds_bucket[5s])))`,
			"bench:queue_depth":           `sum by (contender) (tutorial_callbacks_queued)`,
			"bench:events:rate":           `sum by (contender) (rate(tutorial_events_total[5s]))`,
			"bench:writes:rate":           `sum by (contender) (rate(tutorial_writes_total[5s]))`,
			"bench:objects":               `sum by (contender) (tutorial_cached_objects{kind="BellerophonSimple"})`,
		},
	},
	{
		Name: "ideal", NoKinds: noControllers, CreatesOnly: true, NoHeapLimit: "not limited: it only creates", Resync: "none: it has no cache",
		Defaults: rundir.Settings{Workers: "32", HeapLimit: noLimit, Processors: allCores},
		Look:     Look{Light: "#1b1f24", Dark: "#e6edf3", Dash: []int{5, 5}},
		recipe:   goProgram{folder: "bench", pkg: "./ideal/process"},
	},
	{
		Name: "ideal-progress", NoKinds: noControllers, CreatesOnly: true, NoHeapLimit: "not limited: it only creates", Resync: "none: it has no cache",
		Defaults: rundir.Settings{Workers: "32", HeapLimit: noLimit, Processors: allCores},
		Look:     Look{Light: "#4a4f57", Dark: "#b4bac2", Dash: []int{1, 3}},
		recipe: goProgram{folder: "bench", pkg: "./ideal/process",
			arguments: func(Settings) []string { return []string{"--progress"} }},
	},
	{
		Name: "ideal-http1", NoKinds: noControllers, CreatesOnly: true, NoHeapLimit: "not limited: it only creates", Resync: "none: it has no cache",
		Defaults: rundir.Settings{Workers: "32", HeapLimit: noLimit, Processors: allCores},
		Look:     Look{Light: "#6b7079", Dark: "#8f959e", Dash: []int{1, 1}},
		recipe: goProgram{folder: "bench", pkg: "./ideal/process",
			arguments: func(Settings) []string { return []string{"--progress", "--http1"} }},
	},
}

// quarkusSeries has the names of the Java Operator SDK.
var quarkusSeries = map[string]string{
	"bench:reconciles:rate":       `sum by (contender) (rate(reconciliations_started_total[5s]))`,
	"bench:failures:rate":         `sum by (contender) (rate(reconciliations_failure_total[5s]))`,
	"bench:reconcile_seconds:p50": `histogram_quantile(0.5, sum by (contender, le) (rate(reconciliations_execution_duration_seconds_bucket[5s])))`,
	"bench:reconcile_seconds:p99": `histogram_quantile(0.99, sum by (contender, le) (rate(reconciliations_execution_duration_seconds_bucket[5s])))`,
	"bench:active":                `sum by (contender) (reconciliations_active)`,
	"bench:queue_depth":           `sum by (contender) (reconciliations_queue)`,
	"bench:events:rate":           `sum by (contender) (rate(events_received_total[5s]))`,
	"bench:objects":               `sum by (contender) (custom_resources)`,
}

// kubeSeries has the names of kube-rs's example controller.
var kubeSeries = map[string]string{
	"bench:reconciles:rate":       `sum by (contender) (rate(shero_ctrl_reconcile_runs_total[5s]))`,
	"bench:failures:rate":         `sum by (contender) (rate(shero_ctrl_reconcile_failures_total[5s]))`,
	"bench:reconcile_seconds:p50": `histogram_quantile(0.5, sum by (contender, le) (rate(shero_ctrl_reconcile_duration_seconds_bucket[5s])))`,
	"bench:reconcile_seconds:p99": `histogram_quantile(0.99, sum by (contender, le) (rate(shero_ctrl_reconcile_duration_seconds_bucket[5s])))`,
}

// Look is how charts draw a contender: its colours on light and dark pages, and the dashes of its lines.
// The table has Okabe and Ito's colours, which colour-blind readers can distinguish.
type Look struct {
	Light string `json:"light"`
	Dark  string `json:"dark"`
	Dash  []int  `json:"dash"`
}

// bellerophonArguments maps the contract's environment to the command's flags. The command has no
// client-side rate limit. It serves no probes here, because two contenders side by side would use
// the same port.
func bellerophonArguments(settings Settings) []string {
	arguments := []string{"operator", "--metrics-address=127.0.0.1:" + strconv.Itoa(settings.MetricsPort), "--health-address="}
	if settings.Workers > 0 {
		arguments = append(arguments, "--workers="+strconv.Itoa(settings.Workers))
	}
	if settings.Namespace != "" {
		arguments = append(arguments, "--namespace="+settings.Namespace)
	}
	if settings.Recording != "" {
		arguments = append(arguments, "--record="+settings.Recording)
	}
	if settings.Lease != "" {
		arguments = append(arguments, "--lease="+settings.Lease, "--lease-duration="+settings.LeaseDuration.String())
	}
	if settings.Shards != "" {
		arguments = append(arguments, "--shards="+settings.Shards)
	}
	return arguments
}
