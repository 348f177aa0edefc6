package contender

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Contender is an operator that takes part in the comparison.
type Contender struct {
	// Name is the name in reports and flags.
	Name string
	// CreatesOnly reports that the contender implements only the creation part of the contract.
	// It marks what is physically possible and is not an operator.
	CreatesOnly bool
	// OneWorker reports that the contender cannot reconcile several objects at once.
	OneWorker bool
	// NoHeapLimit reports that the contender's runtime has no setting for a memory limit. A sweep
	// over limits would only repeat the default.
	NoHeapLimit bool
	// Warmed reports that the contender is also measured after a warm-up, if one is requested. It
	// is set for contenders that compile while they run, and for Bellerophon, the reference of
	// the comparison.
	Warmed bool
	// NotMet lists the numbers of the checks of bench/conformance that the contract only reports
	// and that the contender does not meet. Pages that show the contender's times name them. The
	// suite fails if the list is wrong or outdated.
	NotMet []string
	// Notes lists remarks that have to accompany the contender's times.
	Notes []string

	metrics string // the path of the metrics; default /metrics
	recipe  recipe
}

// recipe describes how the programs of one toolchain are built and run.
type recipe interface {
	// tools returns the programs that are needed to build and run the contender.
	tools() []tool
	// build builds the program and returns its path, a file or a folder.
	build(ctx context.Context, b *builder, name string) (program string, err error)
	// command returns the command line, and the environment in addition to the contract's.
	command(program string, settings Settings) (argv, env []string)
	// version returns the versions that matter for a built program.
	version(ctx context.Context, b *builder, program string) (string, error)
}

// all is the table of contenders. A new contender needs a line here and a line in resync of
// package harness. Package report needs a rule for its metrics, and a colour.
var all = []Contender{
	{Name: "bellerophon", Warmed: true, recipe: goProgram{folder: "bellerophon", pkg: "./bellerophon-operator", arguments: bellerophonArguments}},
	{Name: "controller-runtime", recipe: goProgram{folder: "bench/peers/controller-runtime", pkg: ".", library: "sigs.k8s.io/controller-runtime"}},
	{Name: "controller-runtime-tuned", recipe: goProgram{folder: "bench/peers/controller-runtime", pkg: ".", library: "sigs.k8s.io/controller-runtime",
		arguments: func(Settings) []string { return []string{"--tuned"} }}},
	{Name: "kube-rs", NoHeapLimit: true, recipe: cargoProgram{folder: "bench/peers/kube-rs", binary: "bellerophon-kube-rs", library: "kube"}},
	{Name: "quarkus", Warmed: true, NotMet: []string{"3.6"}, Notes: []string{
		"quarkus runs on a JVM: a native image needs a GraalVM JDK, which no package registry offers",
		"quarkus uses the newest Java Operator SDK whose core and Micrometer support were available; 5.5 was not",
	}, metrics: "/q/metrics", recipe: mavenProgram{folder: "bench/peers/quarkus", artifacts: []string{"quarkus-app"},
		jar: "quarkus-app/quarkus-run.jar", libraries: []string{"operator-framework-core", "quarkus-core"}}},
	{Name: "tutorial", Warmed: true, OneWorker: true, recipe: mavenProgram{folder: "bench/peers/tutorial", artifacts: []string{"tutorial.jar", "lib"},
		jar: "tutorial.jar", libraries: []string{"kubernetes-client"}}},
	{Name: "ideal", CreatesOnly: true, recipe: goProgram{folder: "bench", pkg: "./ideal/process"}},
}

// bellerophonArguments maps the contract's environment to the command's flags. The command has no
// client-side rate limit. It serves no probes here, because two contenders side by side would use
// the same port.
func bellerophonArguments(settings Settings) []string {
	arguments := []string{"operator", "--metrics-address=127.0.0.1:" + strconv.Itoa(settings.MetricsPort), "--health-address="}
	if settings.Workers > 0 {
		arguments = append(arguments, "--workers="+strconv.Itoa(settings.Workers))
	}
	return arguments
}

// All returns the contenders in report order.
func All() []Contender { return slices.Clone(all) }

// Named returns the contenders of a comma-separated list of names, in the order of the list.
func Named(names string) ([]Contender, error) {
	var found []Contender
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(all, func(c Contender) bool { return c.Name == strings.TrimSpace(name) })
		if at < 0 {
			return nil, fmt.Errorf("there is no contender %q; there are %s", name, strings.Join(everyName(), ", "))
		}
		found = append(found, all[at])
	}
	return found, nil
}

func everyName() []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
	}
	return names
}

// Missing returns one line about the tools that prevent the contender from being built and run on
// this machine, because they are missing or too old. It returns an empty string if there are
// none. Missing runs the tools to get their versions, until ctx ends.
func (c Contender) Missing(ctx context.Context) string {
	lacking := lacks(ctx, c.recipe.tools())
	if len(lacking) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is left out: it needs %s", c.Name, strings.Join(lacking, " and "))
}

// Program is a built contender.
type Program struct {
	Contender
	// Version names the contender's framework and language, each with its version.
	Version string
	// Identity distinguishes programs. It is a hash of the program's files, arguments and
	// environment. The location of the program is not part of it.
	Identity string

	path string
}

// Build builds a contender in the cache directory of the user, unless it is up to date. The
// output of the tools goes to log. The first build may take minutes.
func (c Contender) Build(ctx context.Context, log io.Writer) (*Program, error) {
	b, err := newBuilder(log)
	if err != nil {
		return nil, err
	}
	program := &Program{Contender: c}
	if err := b.locked(ctx, func() error {
		if program.path, err = c.recipe.build(ctx, b, c.Name); err != nil {
			return err
		}
		if program.Version, err = c.recipe.version(ctx, b, program.path); err != nil {
			return err
		}
		return program.identify()
	}); err != nil {
		return nil, fmt.Errorf("build contender %s: %w", c.Name, err)
	}
	return program, nil
}

// goProgram is a main package of one of the modules of the checkout.
type goProgram struct {
	folder    string // the folder of the module, relative to the root of the checkout
	pkg       string
	library   string // the module whose version matters; if empty, the commit of the checkout counts
	arguments func(Settings) []string
}

func (goProgram) tools() []tool { return []tool{{name: "go"}} }

func (g goProgram) build(ctx context.Context, b *builder, name string) (string, error) {
	// The go command rebuilds stale programs. Without the commit in it, a program stays the same
	// as long as its code does: see Passed.
	program := filepath.Join(b.cache, filepath.Base(filepath.Join(g.folder, g.pkg))+"-"+b.checkoutID())
	if g.library == "" { // Variants of a peer share a program; each program of the main module has its own name.
		program = filepath.Join(b.cache, name+"-"+b.checkoutID())
	}
	return program, b.run(ctx, g.folder, "go", "build", "-trimpath", "-buildvcs=false", "-o", program, g.pkg)
}

func (g goProgram) command(program string, settings Settings) (argv, env []string) {
	argv = []string{program}
	if g.arguments != nil {
		argv = append(argv, g.arguments(settings)...)
	}
	if settings.MemoryLimit > 0 {
		env = append(env, fmt.Sprint("GOMEMLIMIT=", settings.MemoryLimit))
	}
	return argv, env
}

func (g goProgram) version(ctx context.Context, b *builder, program string) (string, error) {
	return goVersion(ctx, b, program, g.library)
}

// cargoProgram is a Rust program. It gets no memory limit, because its allocator has none.
type cargoProgram struct {
	folder, binary string
	library        string // the crate whose version matters
}

func (cargoProgram) tools() []tool { return cargoTools }

func (c cargoProgram) build(ctx context.Context, b *builder, _ string) (string, error) {
	// Cargo rebuilds a stale program.
	target := filepath.Join(b.cache, "cargo-"+b.checkoutID())
	err := b.run(ctx, c.folder, "cargo", "build", "--release", "--locked", "--quiet", "--target-dir", target)
	return filepath.Join(target, "release", c.binary), err
}

func (cargoProgram) command(program string, _ Settings) (argv, env []string) {
	return []string{program}, nil
}

func (c cargoProgram) version(ctx context.Context, b *builder, _ string) (string, error) {
	return cargoVersion(ctx, b, c.folder, c.library)
}

// mavenProgram is a Java program.
type mavenProgram struct {
	folder    string
	artifacts []string // the parts of the folder target to keep: jars, and folders of jars
	jar       string   // the jar to run
	libraries []string // the artifacts whose versions matter
}

func (mavenProgram) tools() []tool { return mavenTools }

func (m mavenProgram) build(ctx context.Context, b *builder, name string) (string, error) {
	// Maven does not detect stale programs, so the hash of the source has to.
	return b.once(ctx, name, m.folder, m.artifacts, func() error {
		return b.run(ctx, m.folder, "mvn", "-q", "-B", "package", "-DskipTests")
	})
}

func (m mavenProgram) command(program string, settings Settings) (argv, env []string) {
	argv = []string{"java"}
	if settings.MemoryLimit > 0 {
		argv = append(argv, fmt.Sprint("-Xmx", settings.MemoryLimit))
	}
	return append(argv, "-jar", filepath.Join(program, filepath.FromSlash(m.jar))), nil
}

func (m mavenProgram) version(ctx context.Context, b *builder, program string) (string, error) {
	return mavenVersion(ctx, b, program, m.libraries)
}
