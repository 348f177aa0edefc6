package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Process is a process under test. contender.Process is one.
type Process interface {
	// Ready returns once the process serves its metrics, or with an error if it ends or
	// ctx does before.
	Ready(ctx context.Context) error
	// MetricsURL is where it serves them.
	MetricsURL() string
	// Stop ends it, by force if need be, and returns how long that took. The error says
	// that force was needed, or that it had ended by itself.
	Stop() (time.Duration, error)
}

// Subject is what is checked.
type Subject struct {
	// Name and Version are for the report.
	Name, Version string
	// CreatesOnly leaves out all checks but those of the creation.
	CreatesOnly bool
	// Start starts the process for the cluster of a kubeconfig file. It is called again
	// where a check restarts it. The process may run until Stop; ctx bounds the start.
	Start func(ctx context.Context, kubeconfig string) (Process, error)
}

// Options of [Run]. The zero value is for a process on an idle machine.
type Options struct {
	// Only are the checks to run, by their numbers; none are all. Those that begin with a
	// number and a dot are meant by the number, too.
	Only []string
	// Patience is how long to wait for what has to come: 1 s or more; default 30 s.
	Patience time.Duration
	// Quiet is how long to watch that nothing comes: 100 ms or more; default 3 s. It has to
	// be longer than the second that a status on its way may wait.
	Quiet time.Duration
	// Progress is called before each check, with its title; may be nil.
	Progress func(title string)

	alter func(*http.Request, *request.RequestInfo) error // changes requests, for seeded bugs
}

func (o Options) complete() (Options, error) {
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	if o.Quiet == 0 {
		o.Quiet = 3 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Patience < time.Second || o.Quiet < 100*time.Millisecond {
		return o, fmt.Errorf("conformance: Patience is %v and Quiet %v; they must be at least 1s and 100ms", o.Patience, o.Quiet)
	}
	for _, only := range o.Only {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.isMeantBy(only) }) {
			return o, fmt.Errorf("conformance: there is no check %q in Only", only)
		}
	}
	return o, nil
}

// check is one line of the report.
type check struct {
	number   string // of the behaviour in the contract, and of the check
	title    string
	required requirement
	run      func(ctx context.Context, t *trial) error
}

// requirement is who has to pass a check.
type requirement int

const (
	ofAll       requirement = iota // those that only create, too
	ofOperators                    // all but those that only create
	ofNobody                       // operators do it, and the report says how it went
)

// isMeantBy says whether a number names a check, or the behaviour that it belongs to.
func (c check) isMeantBy(number string) bool {
	return c.number == number || strings.HasPrefix(c.number, number+".")
}

// checks are all, in the order of the contract. The last ones end the process.
var checks = slices.Concat(creationChecks, changeChecks, driftChecks, deletionChecks, unchangedChecks, foreignChecks, failureChecks, processChecks)

// Run checks a process on a cluster, whose administrator config is of. It installs the
// resource definitions, and needs a cluster on which nobody else does what the contract
// says. The error is of the suite itself: what the process does wrong is in the report.
func Run(ctx context.Context, config *rest.Config, subject Subject, options Options) (report *Report, err error) {
	options, err = options.complete()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("conformance of %s: %w", subject.Name, err)
		}
	}()
	if _, err := install.Operator(ctx, config, ""); err != nil {
		return nil, err
	}
	w, end, err := newWorld(ctx, config, subject, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	report = &Report{Name: subject.Name, Version: subject.Version}
	if err := w.start(ctx); err != nil {
		report.add(check{number: "0", title: "It starts and serves its metrics"}, err, nil, 0)
		return report, nil
	}
	for _, c := range checks {
		if subject.CreatesOnly && c.required != ofAll {
			report.Outcomes = append(report.Outcomes, Outcome{Number: c.number, Title: c.title, LeftOut: true})
			continue
		}
		if len(options.Only) > 0 && !slices.ContainsFunc(options.Only, c.isMeantBy) {
			continue
		}
		if err := w.try(ctx, c, report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// newWorld starts a proxy. The function that it returns takes all away.
func newWorld(ctx context.Context, config *rest.Config, subject Subject, options Options) (*world, func() error, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	core, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	anyKind, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	w := &world{options: options, subject: subject, core: core, any: anyKind}
	directory, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a directory: %w", err)
	}
	if w.proxy, err = newProxy(config, directory); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(directory))
	}
	w.proxy.alter = options.alter
	end := func() error {
		if w.process != nil {
			_, _ = w.process.Stop() // What there is to say of it, a check has said.
		}
		err := errors.Join(w.proxy.close(), os.RemoveAll(directory))
		if w.reference != "" {
			err = errors.Join(err, w.removeNamespace(context.WithoutCancel(ctx), w.reference))
		}
		utilnet.CloseIdleConnectionsFor(client.Transport)
		return err
	}
	if w.reference, err = w.makeNamespace(ctx); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return w, end, nil
}

// start starts the process, and waits until it serves its metrics.
func (w *world) start(ctx context.Context) error {
	process, err := w.subject.Start(ctx, w.proxy.kubeconfig)
	if err != nil {
		return err
	}
	w.process = process
	ctx, cancel := context.WithTimeout(ctx, w.options.Patience)
	defer cancel()
	return process.Ready(ctx)
}

// stop ends the process.
func (w *world) stop() (time.Duration, error) {
	process := w.process
	w.process = nil
	return process.Stop()
}

// try runs one check in a namespace of its own. The error is of the suite.
func (w *world) try(ctx context.Context, c check, report *Report) error {
	w.options.Progress(c.number + " " + c.title)
	if w.process == nil { // A check before did not get as far as its restart.
		if err := w.start(ctx); err != nil {
			report.add(c, err, nil, 0)
			return nil
		}
	}
	namespace, err := w.makeNamespace(ctx)
	if err != nil {
		return err
	}
	t := &trial{world: w, namespace: namespace}
	began := time.Now()
	report.add(c, c.run(ctx, t), t.notes, time.Since(began))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return w.removeNamespace(ctx, namespace)
}
