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

// Process is a process under test. contender.Process implements it.
type Process interface {
	// Ready waits until the process serves its metrics. It returns an error if the process or ctx
	// ends before that.
	Ready(ctx context.Context) error
	// MetricsURL returns the URL of the process's metrics.
	MetricsURL() string
	// Stop ends the process, by force if necessary, and returns the time that took. The error
	// says that force was needed, or that the process had exited by itself.
	Stop() (time.Duration, error)
}

// Subject describes the process to check.
type Subject struct {
	// Name and Version appear in the report.
	Name, Version string
	// CreatesOnly skips all checks except the checks of the creation and the process.
	CreatesOnly bool
	// Start starts the process for the cluster of a kubeconfig file. A check that restarts the
	// process calls Start again. The process may run until Stop; ctx bounds only the start.
	Start func(ctx context.Context, kubeconfig string) (Process, error)
}

// Options configures [Run]. The zero value suits a process on an idle machine.
type Options struct {
	// Only lists the numbers of the checks to run; empty means all checks. A number also selects
	// every check whose number starts with it and a dot.
	Only []string
	// Patience is the time limit for an expected event: 1 s or more; default 30 s.
	Patience time.Duration
	// Quiet is the time for which a check observes that nothing is written: 100 ms or more;
	// default 3 s. It has to exceed the second for which a contender may hold back a progressing
	// status.
	Quiet time.Duration
	// Progress is called before each check, with its title; may be nil.
	Progress func(title string)

	alter func(*http.Request, *request.RequestInfo) error // changes requests, for the seeded bugs of the tests
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
		return o, fmt.Errorf("conformance: Patience is %v and Quiet is %v; allowed are at least 1s and 100ms", o.Patience, o.Quiet)
	}
	for _, only := range o.Only {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.matches(only) }) {
			return o, fmt.Errorf("conformance: Only names the check %q, which does not exist; give numbers of bench/contract.md such as 3 or 3.1", only)
		}
	}
	return o, nil
}

// check is one line of the report.
type check struct {
	number   string // the number of the behaviour in the contract, and of the check in it
	title    string
	required requirement
	run      func(ctx context.Context, t *trial) error
}

// requirement says which contenders have to pass a check.
type requirement int

const (
	ofAll       requirement = iota // all contenders, with the ones that only create
	ofOperators                    // all contenders except the ones that only create
	ofNone                         // no contender: operators run the check, and the report shows the outcome
)

// matches reports whether a number selects the check, or the behaviour that the check belongs to.
func (c check) matches(number string) bool {
	return c.number == number || strings.HasPrefix(c.number, number+".")
}

// checks lists all checks, in the order of the contract. The last ones end the process.
var checks = slices.Concat(creationChecks, changeChecks, driftChecks, deletionChecks, unchangedChecks, foreignChecks, failureChecks, processChecks)

// Run checks a process on a cluster. config belongs to the administrator of the cluster. Run
// installs the resource definitions. No other client may do what the contract describes on the
// cluster at the same time. The error is about the suite itself; failures of the process are in
// the report.
func Run(ctx context.Context, config *rest.Config, subject Subject, options Options) (report *Report, err error) {
	options, err = options.complete()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("check the conformance of %s: %w", subject.Name, err)
		}
	}()
	if _, err := install.Operator(ctx, config, install.Options{}); err != nil {
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
		if len(options.Only) > 0 && !slices.ContainsFunc(options.Only, c.matches) {
			continue
		}
		if err := w.try(ctx, c, report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// newWorld starts a proxy. The function that it returns removes everything that newWorld created.
func newWorld(ctx context.Context, config *rest.Config, subject Subject, options Options) (*world, func() error, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	core, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, nil, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	anyKind, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, nil, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	w := &world{options: options, subject: subject, core: core, any: anyKind}
	directory, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, nil, fmt.Errorf("create a directory: %w", err)
	}
	if w.proxy, err = newProxy(config, directory); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(directory))
	}
	w.proxy.alter = options.alter
	end := func() error {
		if w.process != nil {
			_, _ = w.process.Stop() // A check has already reported its errors.
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

// start starts the process and waits until it serves its metrics.
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

// try runs one check in its own namespace. The error is about the suite.
func (w *world) try(ctx context.Context, c check, report *Report) error {
	w.options.Progress(c.number + " " + c.title)
	if w.process == nil { // An earlier check failed before its restart.
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
