package up

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
)

// update is a change of a sample or of the cache's level.
type update struct {
	event *streams.Event
	level cache.Level
}

// follow shows the progress of the samples until ctx ends or, with UntilSettled, until all is
// settled. It watches the samples itself, independently of the operator.
func (r *run) follow(ctx context.Context, config *rest.Config, made *samples) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.options.UntilSettled {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, r.options.Timeout, errTimeout)
		defer stop()
	}
	watch, err := watchSamples(config, r.options.Namespace, &v1.BellerophonSimple{}, sheroes.Resource)
	if err != nil {
		return err
	}
	samples := streams.MapOnReceive(watch, func(events []streams.Event) ([]update, error) {
		updates := make([]update, len(events))
		for i := range events {
			updates[i] = update{event: &events[i], level: r.manager.Cache().Level()}
		}
		return updates, nil
	})
	levels := streams.MapOnReceive(r.manager.Cache().Levels(), func(levels []cache.Level) ([]update, error) {
		return []update{{level: levels[len(levels)-1]}}, nil
	})
	b := &board{run: r, rows: map[string]*Row{}, ours: map[string]bool{}}
	for i := range made.count {
		b.ours[made.name(i)] = true
	}
	err = streams.ForEach(ctx, streams.Merge(samples, levels), func(updates []update) {
		for _, update := range updates {
			b.take(update)
		}
		b.show()
		if b.settled() {
			if r.report.Seconds.Settled == nil {
				r.report.Seconds.Settled = r.since()
			}
			if r.options.UntilSettled {
				cancel(errSettled)
			}
		}
	}, func(err error) { r.log.Warn(connect.Explain(err).Error()) })
	b.finish()
	switch cause := context.Cause(ctx); {
	case err != nil:
		return err
	case errors.Is(cause, errTimeout):
		return fmt.Errorf("not settled after %v: %s", r.options.Timeout, b.unsettled())
	default:
		return cause
	}
}

var errTimeout = errors.New("timeout")

// watchSamples returns the events of the samples of a kind.
func watchSamples(config *rest.Config, namespace string, of streams.Object, plural string) (streams.Stream[streams.Event], error) {
	var none streams.Stream[streams.Event]
	types, err := operator.Scheme()
	if err != nil {
		return none, err
	}
	kind, err := sources.KindOf(types, of, sources.Plural(plural))
	if err != nil {
		return none, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return none, fmt.Errorf("making an HTTP client for %s: %w", config.Host, err)
	}
	requests, err := kind.Client(config, client)
	if err != nil {
		return none, err
	}
	return sources.Watch(requests, kind, sources.WatchOptions{Namespaces: []string{namespace}, LabelSelector: sampleLabel + "=up"}), nil
}

// since returns the seconds since the start.
func (r *run) since() *float64 { return seconds(time.Since(r.zero)) }

// board is the state that up shows.
type board struct {
	run    *run
	rows   map[string]*Row
	ours   map[string]bool // the names of this run's samples; earlier runs may have left others
	listed bool
	level  cache.Level
}

func (b *board) take(update update) {
	report := &b.run.report
	if update.level != b.level {
		b.level = update.level
		if !b.run.screen.IsLive() {
			b.line("cache", b.level.String(), b.loop())
		}
	}
	if update.event == nil || (update.event.Object != nil && !b.ours[update.event.Key.Name]) {
		return
	}
	switch event := update.event; event.Type {
	case streams.ListEnd:
		b.listed = true
	case streams.Deleted:
		delete(b.rows, event.Key.Name)
		b.line(event.Key.Name, "deleted", "")
	case streams.Listed, streams.Applied:
		row := rowOf(event.Object.(*v1.BellerophonSimple))
		if known := b.rows[row.Name]; known == nil || *known != row {
			b.line(row.Name, row.count()+" "+row.State, row.Message)
		}
		b.rows[row.Name] = &row
	}
	ready := b.ready()
	if ready > 0 && report.Seconds.FirstReady == nil {
		report.Seconds.FirstReady = b.run.since()
	}
	if b.listed && ready == b.run.options.Sheroes && report.Seconds.AllReady == nil {
		report.Seconds.AllReady = b.run.since()
	}
}

// line prints a change as a line of its own, unless the table is live.
func (b *board) line(what, state, detail string) {
	if b.run.screen.IsLive() {
		return
	}
	b.run.screen.Println(strings.TrimRight(fmt.Sprintf("%7.2fs  %-12s %-20s %s", *b.run.since(), what, state, detail), " "))
}

func (b *board) ready() int {
	ready := 0
	for _, row := range b.rows {
		if row.State == v1.ConditionReady {
			ready++
		}
	}
	return ready
}

func (b *board) settled() bool {
	return b.listed && b.level >= cache.Settled && b.ready() == b.run.options.Sheroes
}

// unsettled describes what is missing until all is settled.
func (b *board) unsettled() string {
	var missing []string
	for _, row := range b.sorted() {
		if row.State != v1.ConditionReady {
			missing = append(missing, strings.TrimRight(fmt.Sprintf("%s is %s (%s) %s", row.Name, row.State, row.count(), row.Message), " "))
		}
	}
	if absent := b.run.options.Sheroes - len(b.rows); absent > 0 {
		missing = append(missing, fmt.Sprintf("%d samples have not been seen yet", absent))
	}
	if len(missing) == 0 {
		return fmt.Sprintf("all samples are Ready, but the cache is %v", b.level)
	}
	const most = 5
	if len(missing) > most {
		missing = append(missing[:most], fmt.Sprintf("and %d more", len(missing)-most))
	}
	return strings.Join(missing, "; ")
}

func (b *board) loop() string {
	loop := b.run.manager.Cache().Loop()
	return fmt.Sprintf("loop %v, calm after %v", loop.Duration().Round(100*time.Microsecond), loop.QuietPeriod().Round(time.Millisecond))
}

func (b *board) sorted() []Row {
	rows := make([]Row, 0, len(b.rows))
	for _, row := range b.rows {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if len(a.Name) != len(b.Name) {
			return len(a.Name) - len(b.Name)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return rows
}

// show draws the table if the screen is live.
func (b *board) show() {
	const most = 20
	s := b.run.screen
	if !s.IsLive() {
		return
	}
	lines := []string{"", s.Paint(screen.Bold, fmt.Sprintf("%-14s %-16s %7s %6s  %-12s %s", "SHERO", "HORSE", "DESIRED", "READY", "STATE", "MESSAGE"))}
	for i, row := range b.sorted() {
		if i == most {
			lines = append(lines, s.Paint(screen.Dim, fmt.Sprintf("... and %d more", len(b.rows)-most)))
			break
		}
		colour := screen.Yellow
		switch row.State {
		case v1.ConditionReady:
			colour = screen.Green
		case v1.ConditionDegraded:
			colour = screen.Red
		}
		lines = append(lines, fmt.Sprintf("%-14s %-16s %7d %6d  %s %s", row.Name, row.Horse, row.Desired, row.Ready,
			s.Paint(colour, fmt.Sprintf("%-12s", row.State)), row.Message))
	}
	level := s.Paint(screen.Yellow, b.level.String())
	if b.level >= cache.Settled {
		level = s.Paint(screen.Green, b.level.String())
	}
	if kinds := b.run.manager.Cache().NotCounted(); len(kinds) > 0 {
		level += " without " + strings.Join(kinds, ", ")
	}
	lines = append(lines, "", fmt.Sprintf("%d of %d Ready · cache %s · %s · Ctrl-C ends and cleans up", b.ready(), b.run.options.Sheroes, level, b.loop()))
	s.Live(lines...)
}

// finish copies the last state to the report.
func (b *board) finish() {
	b.run.screen.Keep()
	report := &b.run.report
	report.Objects = b.sorted()
	report.Level = b.level
	report.Uncounted = b.run.manager.Cache().NotCounted()
	report.LoopSeconds = b.run.manager.Cache().Loop().Duration().Seconds()
	report.QuietSeconds = b.run.manager.Cache().Loop().QuietPeriod().Seconds()
}

// rowOf returns the row of an object.
func rowOf(hero *v1.BellerophonSimple) Row {
	row := Row{Namespace: hero.Namespace, Name: hero.Name, Horse: hero.Spec.WingedHorseName, Desired: 1, Ready: hero.Status.ReadyReplicas, State: "Pending"}
	if hero.Spec.Replicas != nil {
		row.Desired = *hero.Spec.Replicas
	}
	if hero.Status.ObservedGeneration != hero.Generation {
		return row
	}
	for _, state := range []string{v1.ConditionDegraded, v1.ConditionReady, v1.ConditionProgressing} {
		if condition := meta.FindStatusCondition(hero.Status.Conditions, state); condition != nil && condition.Status == "True" {
			row.State, row.Reason = state, condition.Reason
			if state == v1.ConditionDegraded {
				row.Message = condition.Message
			}
			break
		}
	}
	return row
}
