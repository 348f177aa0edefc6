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
	// Name is what reports and flags call it.
	Name string
	// CreatesOnly says that it does only the creation part of the contract: it marks what
	// is physically possible, and is no operator.
	CreatesOnly bool
	// OneWorker says that it cannot reconcile several objects at once.
	OneWorker bool
	// NoHeapLimit says that its runtime cannot be told a limit of the memory: a sweep would
	// measure the default again.
	NoHeapLimit bool
	// Warmed says that it is measured after a warm-up as well, if that is asked for: who
	// compiles while it runs, and Bellerophon, which the others are compared with.
	Warmed bool
	// NotMet are the numbers of the checks of bench/conformance that the contract only
	// reports, and that it does not meet. Who shows its times says so. The suite fails
	// where this is not so, or not so any more.
	NotMet []string
	// Notes are what else has to be said where its times are shown.
	Notes []string

	metrics string // the path of its metrics; default /metrics
	recipe  recipe
}

// recipe is how the programs of one toolchain are built and run.
type recipe interface {
	// tools are the programs that it takes to build and run the contender.
	tools() []tool
	// build makes the program and returns its path, a file or a folder.
	build(ctx context.Context, b *builder, name string) (program string, err error)
	// command is what to run, and what its environment has beside the contract's.
	command(program string, settings Settings) (argv, env []string)
	// version names the versions that matter, of a program that was built.
	version(ctx context.Context, b *builder, program string) (string, error)
}

// all is the table of contenders. Who adds one adds a line here, one to resync of package
// harness, and to the rules and the colours of package report what it serves and its own.
var all = []Contender{
	{Name: "bellerophon", Warmed: true, recipe: goProgram{pkg: "./bellerophon/bellerophon-operator", arguments: bellerophonArguments}},
	{Name: "controller-runtime", recipe: goProgram{folder: "bench/peers/controller-runtime", pkg: ".", library: "sigs.k8s.io/controller-runtime"}},
	{Name: "controller-runtime-tuned", recipe: goProgram{folder: "bench/peers/controller-runtime", pkg: ".", library: "sigs.k8s.io/controller-runtime",
		arguments: func(Settings) []string { return []string{"--tuned"} }}},
	{Name: "kube-rs", NoHeapLimit: true, recipe: cargoProgram{folder: "bench/peers/kube-rs", binary: "bellerophon-kube-rs", library: "kube"}},
	{Name: "quarkus", Warmed: true, NotMet: []string{"3.6"}, Notes: []string{
		"quarkus runs on a JVM: a native image needs a GraalVM JDK, which the registries of packages do not have",
		"quarkus has the newest Java Operator SDK whose core and Micrometer support were to be had: 5.5 was not",
	}, metrics: "/q/metrics", recipe: mavenProgram{folder: "bench/peers/quarkus", artifacts: []string{"quarkus-app"},
		jar: "quarkus-app/quarkus-run.jar", libraries: []string{"operator-framework-core", "quarkus-core"}}},
	{Name: "tutorial", Warmed: true, OneWorker: true, recipe: mavenProgram{folder: "bench/peers/tutorial", artifacts: []string{"tutorial.jar", "lib"},
		jar: "tutorial.jar", libraries: []string{"kubernetes-client"}}},
	{Name: "ideal", CreatesOnly: true, recipe: goProgram{pkg: "./bench/ideal/process"}},
}

// bellerophonArguments map the contract's environment to the command's flags. It has no
// client-side rate limit. It serves no probes here: two contenders side by side would
// want the same port.
func bellerophonArguments(settings Settings) []string {
	arguments := []string{"operator", "--metrics-address=127.0.0.1:" + strconv.Itoa(settings.MetricsPort), "--health-address="}
	if settings.Workers > 0 {
		arguments = append(arguments, "--workers="+strconv.Itoa(settings.Workers))
	}
	return arguments
}

// All are the contenders, in the order of reports.
func All() []Contender { return slices.Clone(all) }

// Named are the contenders of a list of names with commas between them, in its order.
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

// Missing says in one line what keeps a contender from being built and run on this
// machine, or nothing: tools that are not there, or too old. It asks them for their
// versions, until ctx ends.
func (c Contender) Missing(ctx context.Context) string {
	lacking := lacks(ctx, c.recipe.tools())
	if len(lacking) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is left out: it needs %s", c.Name, strings.Join(lacking, " and "))
}

// Program is a contender that was built.
type Program struct {
	Contender
	// Version names the contender's framework and language, each with its version.
	Version string
	// Identity tells programs apart: it is the hash of the program's files, and of what it
	// is run with. Where it lies is not part of that.
	Identity string

	path string
}

// Build builds a contender, unless that has been done, in the cache directory of the
// user. What the tools print goes to log. It may take minutes the first time.
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
		return nil, fmt.Errorf("building contender %s: %w", c.Name, err)
	}
	return program, nil
}

// goProgram is a main package of this module or of a nested one.
type goProgram struct {
	folder    string // of the module, from the root of the checkout
	pkg       string
	library   string // the module whose version matters; none is the main module's
	arguments func(Settings) []string
}

func (goProgram) tools() []tool { return []tool{{name: "go"}} }

func (g goProgram) build(ctx context.Context, b *builder, name string) (string, error) {
	// The go command knows what is stale. Without the commit in it, a program is the same
	// as long as its code is: see Passed.
	program := filepath.Join(b.cache, filepath.Base(filepath.Join(g.folder, g.pkg))+"-"+b.checkoutID())
	if g.library == "" { // Forms of a peer share a program, and ours are each their own.
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

// cargoProgram is a Rust program. It gets no limit of its memory: its allocator has none.
type cargoProgram struct {
	folder, binary string
	library        string // the crate whose version matters
}

func (cargoProgram) tools() []tool { return cargoTools }

func (c cargoProgram) build(ctx context.Context, b *builder, _ string) (string, error) {
	// Cargo knows what is stale.
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
	artifacts []string // what to keep of the folder target: jars, and folders of jars
	jar       string   // which of them to run
	libraries []string // the artifacts whose versions matter
}

func (mavenProgram) tools() []tool { return mavenTools }

func (m mavenProgram) build(ctx context.Context, b *builder, name string) (string, error) {
	// Maven does not know what is stale, so that the hash of the source has to.
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
