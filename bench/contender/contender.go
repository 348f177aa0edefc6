package contender

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// Contender is an operator that takes part in the comparison.
type Contender struct {
	// Name is the name in reports and flags.
	Name string
	// Framework is the name that the forms of a contender share, and Form distinguishes them. An empty
	// Framework is the Name.
	Framework string
	Form      Form
	// Defaults has the settings of a round that asks for no others. Reports show them in each row.
	Defaults rundir.Settings
	// CreatesOnly reports that the contender implements only the creation part of the contract.
	// It marks what is physically possible and is not an operator.
	CreatesOnly bool
	// OneWorker reports that the contender cannot reconcile several objects at once.
	OneWorker bool
	// NoHeapLimit says why the contender cannot get a memory limit, if it cannot. A sweep over limits
	// would only repeat the default.
	NoHeapLimit string
	// Elects reports that several processes of the contender elect a leader by the Lease of the contract. Shares
	// reports that they share the objects. A contender without them is left out of the scenarios that need them.
	Elects, Shares bool
	// OneNamespace reports that the contender can be restricted to one namespace, so that it runs beside another one.
	OneNamespace bool
	// NoKinds says why the contender has no program with many kinds, if it has none. A scenario with many
	// kinds leaves the contender out.
	NoKinds string
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
	// Resync says how often the contender reconciles all objects again although nothing changed.
	// Every scenario is shorter than each of these periods, unless an idle or a long scenario of an hour
	// is requested.
	Resync string
	// JVM reports that the contender runs on a JVM, which is slow until it is warm.
	JVM bool
	// Look is how charts draw the contender.
	Look Look
	// Series maps time series of reports to the contender's own metrics: a recording rule of package
	// report by its name, and the expression that is added to it. The common names of
	// controller-runtime's metrics, and the process metrics of Go and Micrometer, need no entry.
	Series map[string]string

	metrics string // the path of the metrics; default /metrics
	recipe  recipe
	kinds   recipe // the program with many kinds; nil with NoKinds
	suffix  string // of the name of the program; empty for the operator
}

// WithKinds returns the contender with its program with many kinds in the place of its operator. It must not be
// called for a contender that has NoKinds.
func (c Contender) WithKinds() Contender {
	c.recipe, c.suffix = c.kinds, "-kinds"
	return c
}

// Form is how a framework is set up.
type Form int

// The forms.
const (
	Usual Form = iota // with the defaults of the framework
	Tuned             // with the options that its documentation recommends
	Equal             // with everything that its public API offers of what Bellerophon does
)

func (f Form) String() string {
	switch f {
	case Tuned:
		return "tuned: the options that its documentation recommends"
	case Equal:
		return "equal: set up like Bellerophon, as far as it offers that"
	default:
		return "its defaults"
	}
}

// recipe describes how the programs of one toolchain are built and run.
type recipe interface {
	// tools returns the programs that are needed to build and run the contender.
	tools() []tool
	// build builds the program and returns its path, a file or a folder.
	build(ctx context.Context, b *builder, name string) (program string, err error)
	// command returns the command. Its environment is the one in addition to the contract's.
	command(program string, settings Settings) *exec.Cmd
	// version returns the versions that matter for a built program.
	version(ctx context.Context, b *builder, program string) (string, error)
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

// Compare orders names of contenders as in the table. Names that it does not have come last, by name.
func Compare(a, b string) int {
	place := func(name string) int {
		if at := slices.IndexFunc(all, func(c Contender) bool { return c.Name == name }); at >= 0 {
			return at
		}
		return len(all)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

// CompareEqualFirst orders names as Compare does, with the last form of each framework first.
func CompareEqualFirst(a, b string) int {
	one, other := Facts(a), Facts(b)
	if one.Framework == other.Framework {
		return cmp.Or(cmp.Compare(other.Form, one.Form), cmp.Compare(a, b))
	}
	return Compare(a, b)
}

// Facts returns the contender of a name. Without one, such as for a contender of an old run, it returns
// a Contender that has a look and no other facts.
func Facts(name string) Contender {
	if at := slices.IndexFunc(all, func(c Contender) bool { return c.Name == name }); at >= 0 {
		found := all[at]
		found.Framework = cmp.Or(found.Framework, name)
		return found
	}
	return Contender{Name: name, Framework: name, Look: Look{Light: "#59636e", Dark: "#9da7b3", Dash: []int{2, 2}}}
}

func everyName() []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
	}
	return names
}

// Missing returns one line about the tools that are missing or too old to build and run the
// contender on this machine. It returns an empty string if there are
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
		if program.path, err = c.recipe.build(ctx, b, c.Name+c.suffix); err != nil {
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

func (g goProgram) command(program string, settings Settings) *exec.Cmd {
	command := exec.Command(program)
	if g.arguments != nil {
		command.Args = append(command.Args, g.arguments(settings)...)
	}
	if settings.MemoryLimit > 0 {
		command.Env = append(command.Env, fmt.Sprint("GOMEMLIMIT=", settings.MemoryLimit))
	}
	return command
}

func (g goProgram) version(ctx context.Context, b *builder, program string) (string, error) {
	return goVersion(ctx, b, program, g.library)
}

// cargoProgram is a Rust program. It gets no memory limit, because its allocator has none.
type cargoProgram struct {
	folder, binary string
	library        string // the crate whose version matters
	arguments      []string
}

func (cargoProgram) tools() []tool { return cargoTools }

func (c cargoProgram) build(ctx context.Context, b *builder, _ string) (string, error) {
	// Cargo rebuilds a stale program.
	target := filepath.Join(b.cache, "cargo-"+b.checkoutID())
	err := b.run(ctx, c.folder, "cargo", "build", "--release", "--locked", "--quiet", "--target-dir", target)
	return filepath.Join(target, "release", c.binary), err
}

func (c cargoProgram) command(program string, _ Settings) *exec.Cmd {
	return exec.Command(program, c.arguments...)
}

func (c cargoProgram) version(ctx context.Context, b *builder, _ string) (string, error) {
	return cargoVersion(ctx, b, c.folder, c.library)
}
