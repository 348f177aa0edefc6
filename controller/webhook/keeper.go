package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// keeper keeps the certificate and the configurations up to date. Only its goroutine uses its fields.
type keeper struct {
	*Server
	of       []configuration
	applied  map[int]time.Time // when a configuration was last applied, since the start
	changed  chan struct{}     // holds a token when something may have changed
	incoming *pair             // the next certificate, until API servers trust it
	known    map[string]*trust
	repair   time.Time // when to repair a configuration that another writer has changed
	quiet    time.Time // when API servers have read what was injected before the server was ready
	inputs   *streams.MergeHub[streams.Event]
	owner    []any // of configurations; nil without one
	located
}

// trust is an authority that is injected, or was.
type trust struct {
	authority *x509.Certificate
	current   bool      // signed a certificate that is in use, or is about to be
	until     time.Time // how long it stays injected when it is no longer current
	removed   bool      // was removed once, and is not removed again if another replica still injects it
	injected  time.Time // when all configurations had it
}

func newKeeper(s *Server) *keeper {
	return &keeper{
		Server: s, of: s.configurations(), applied: map[int]time.Time{}, changed: make(chan struct{}, 1), known: map[string]*trust{},
		inputs: streams.NewMergeHub[streams.Event](), located: newLocated(),
	}
}

// run keeps everything up to date until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	for _, each := range k.of {
		if each.isEmpty() || each.name == "" {
			continue
		}
		if err := k.watch(k.api.places[each.kind], types.NamespacedName{Name: each.name}); err != nil {
			return err
		}
	}
	if k.secret.Name != "" {
		if err := k.watch(k.api.secrets, k.secret); err != nil {
			return err
		}
	}
	group := lifecycle.New(ctx)
	group.Go("watch", func(ctx context.Context) error {
		return streams.ForEach(ctx, k.inputs.Stream(), func([]streams.Event) { k.wake() }, k.warn)
	})
	if folder := k.options.Certificates.Folder; folder != "" {
		files := sources.Files(folder, sources.FilesOptions{NoGitignore: true})
		group.Go("files", func(ctx context.Context) error {
			return streams.ForEach(ctx, files, func([]sources.FileEvent) { k.wake() }, k.warn)
		})
	}
	group.Go("sync", k.follow)
	return group.Wait()
}

// watch makes the changes of one object wake the keeper.
func (k *keeper) watch(of place, name types.NamespacedName) error {
	changes, err := k.api.watch(of, name)
	if err == nil {
		k.inputs.Add(changes)
	}
	return err
}

func (k *keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func (k *keeper) warn(err error) { k.log.Warn("webhook server cannot watch", "error", err) }

// follow syncs at each change, and when the time has come.
func (k *keeper) follow(ctx context.Context) error {
	backoff := newBackoff()
	var last string
	for {
		next, err := k.sync(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			k.fail(err)
			next = time.Now().Add(backoff.Step())
			if err.Error() != last && !errors.Is(err, errRaced) {
				last = err.Error()
				k.log.Warn("webhook server is not up to date", "error", err)
			}
		default:
			backoff, last = newBackoff(), ""
		}
		timer := time.NewTimer(time.Until(next))
		if next.IsZero() {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
		case <-k.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.25, Steps: 9, Cap: 10 * time.Second}
}

// patience is how long the requests of one sync may take.
const patience = 30 * time.Second

// sync brings everything up to date once, and returns when to do so again without an event.
//
// The configurations are read before the certificate, and written only at the version that was read. So a
// replica with an old view never removes an authority that another one has injected since.
func (k *keeper) sync(ctx context.Context) (next time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := k.locate(ctx, time.Now()); err != nil {
		return next, err
	}
	if k.owner, err = k.readOwner(ctx); err != nil {
		return next, err
	}
	live := make([]*unstructured.Unstructured, len(k.of))
	for i, each := range k.of {
		if live[i], err = k.read(ctx, each); err != nil {
			return next, err
		}
	}
	now := time.Now()
	held, loadErr := k.load(ctx, now)
	switch {
	case loadErr == nil:
		k.take(held.pair, now)
	case !k.served.Load().isValid(now):
		return next, loadErr
	}
	k.judge(live, now)
	missing, err := k.inject(ctx, live, now)
	if err != nil {
		return next, errors.Join(loadErr, err)
	}
	k.promote(now)
	if err := errors.Join(loadErr, missing); err != nil {
		return next, err
	}
	select {
	case <-k.ready:
	default:
		if !now.Before(k.quiet) {
			close(k.ready)
			k.log.Info("webhook server is ready", "name", k.options.Name)
		}
	}
	return k.next(held.renew, now), nil
}

// read returns a live configuration, or nil if it does not exist.
func (k *keeper) read(ctx context.Context, of configuration) (*unstructured.Unstructured, error) {
	if of.name == "" {
		return nil, nil
	}
	live := &unstructured.Unstructured{}
	err := k.api.places[of.kind].get(ctx, types.NamespacedName{Name: of.name}, live)
	if apierrors.IsNotFound(err) || of.isEmpty() && apierrors.IsForbidden(err) {
		return nil, nil
	}
	return live, err
}

// take takes a loaded pair into use: at once if there is no valid one, and otherwise when API servers trust it.
func (k *keeper) take(held *pair, now time.Time) {
	switch served := k.served.Load(); {
	case held.is(served):
		k.served.Store(held) // Its authorities may have changed.
		k.metrics.uses(held, false)
		k.incoming = nil
	case !served.isValid(now):
		k.serveWith(held)
	default:
		k.incoming = held
	}
}

func (k *keeper) serveWith(held *pair) {
	replaced := k.served.Swap(held) != nil
	k.incoming = nil
	k.metrics.uses(held, replaced)
	k.log.Info("webhook certificate in use", "expires", held.leaf.NotAfter.UTC(), "serial", held.leaf.SerialNumber.Text(16))
}

// judge decides which authorities are current, and how long others stay.
func (k *keeper) judge(live []*unstructured.Unstructured, now time.Time) {
	meet := func(authority *x509.Certificate) *trust {
		fingerprint := printOf(authority)
		if k.known[fingerprint] == nil {
			k.known[fingerprint] = &trust{authority: authority}
		}
		return k.known[fingerprint]
	}
	for i, each := range k.of {
		for _, bundle := range each.bundles(live[i]) {
			parsed, _ := parseAuthorities([]byte(bundle)) // A bundle of nonsense has none.
			for _, authority := range parsed {
				meet(authority)
			}
		}
	}
	for _, known := range k.known {
		known.current = false
	}
	for _, held := range []*pair{k.served.Load(), k.incoming} {
		if held != nil {
			for _, authority := range held.authorities {
				meet(authority).current = true
			}
		}
	}
	for print, known := range k.known {
		switch {
		case !now.Before(known.authority.NotAfter):
			delete(k.known, print)
		case known.current:
			known.until, known.removed = time.Time{}, false
		case known.until.IsZero():
			known.until = now.Add(k.timings.overlap)
		}
	}
}

// promote takes the next certificate into use if API servers trust it.
func (k *keeper) promote(now time.Time) {
	if k.incoming != nil && !now.Before(k.trusted(k.incoming)) {
		k.serveWith(k.incoming)
	}
}

// trusted returns when API servers trust an injected pair.
func (k *keeper) trusted(held *pair) (at time.Time) {
	for _, authority := range held.authorities {
		if known := k.known[printOf(authority)]; known != nil {
			if since := known.injected.Add(k.timings.propagation); since.After(at) {
				at = since
			}
		}
	}
	return at
}

// next returns the earliest time at which something is due.
func (k *keeper) next(renew, now time.Time) (next time.Time) {
	due := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	due(renew)
	due(k.quiet)
	due(k.repair)
	due(k.again)
	due(k.served.Load().leaf.NotAfter)
	if k.incoming != nil {
		due(k.trusted(k.incoming))
	}
	for _, known := range k.known {
		due(known.until)
		due(known.authority.NotAfter)
	}
	return next
}

// inject applies the configurations that lack something. missing says which could not be applied because of
// their resource definition.
func (k *keeper) inject(ctx context.Context, live []*unstructured.Unstructured, now time.Time) (missing, err error) {
	var failures []error
	for i, each := range k.of {
		if wrong := each.check(live[i]); wrong != nil {
			missing = errors.Join(missing, wrong)
			continue
		}
		if err := k.bring(ctx, i, live[i], now); err != nil {
			failures = append(failures, err)
		}
	}
	if err := errors.Join(failures...); err != nil {
		return missing, err
	}
	for _, known := range k.known {
		if known.current && known.injected.IsZero() {
			known.injected = now
		}
		known.removed = known.removed || !known.current && !now.Before(known.until)
	}
	return missing, nil
}

// repairAfter is the least time between two repairs of a configuration. During a rolling update, two versions
// of a program may want different ones, and would otherwise undo each other's without end.
const repairAfter = time.Minute

// bring applies a configuration if it lacks something, or if an earlier version of the program has set more fields.
func (k *keeper) bring(ctx context.Context, number int, live *unstructured.Unstructured, now time.Time) error {
	of := k.of[number]
	if of.isEmpty() && live == nil {
		return nil
	}
	has := of.bundles(live)
	bundle, change, unsure := k.bundleFor(has, now)
	fields, err := k.fields(of, bundle)
	if err != nil {
		return err
	}
	if k.owner != nil && of.kind != definitions { // The deletion of a definition would delete all its objects.
		fields["metadata"] = map[string]any{"ownerReferences": k.owner}
	}
	last := k.applied[number]
	first := last.IsZero()
	stands := false // An earlier process, or another replica, has applied it.
	if live != nil && !change {
		same := covers(live.Object, fields)
		switch again := last.Add(repairAfter); {
		case first:
			stands = same && isApplied(of, live, fields)
		case same || of.isEmpty():
			return nil
		case now.Before(again):
			k.repair = again
			return nil
		}
	}
	if !stands {
		if err := k.write(ctx, of, live, fields); err != nil {
			return err
		}
	}
	k.applied[number] = now
	if len(has) > 0 && first && unsure && !of.isEmpty() { // API servers may still trust the old authority only.
		k.quiet = now.Add(k.timings.propagation)
	}
	return nil
}

// write applies fields of a configuration, at the version that was read.
func (k *keeper) write(ctx context.Context, of configuration, live *unstructured.Unstructured, fields map[string]any) (err error) {
	wanted := &unstructured.Unstructured{Object: fields}
	wanted.SetGroupVersionKind(of.kind)
	wanted.SetName(of.name)
	if live != nil {
		wanted.SetResourceVersion(live.GetResourceVersion())
	}
	if patch := of.retarget(live, fields); patch != nil {
		version, failed := k.api.places[of.kind].merge(ctx, of.name, patch)
		wanted.SetResourceVersion(version)
		err = failed
	}
	if err == nil {
		err = k.api.places[of.kind].apply(ctx, wanted)
	}
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w: %w", errRaced, err)
	case err != nil:
		return err
	}
	k.log.Info("webhook configuration applied", "kind", of.kind.Kind, "name", of.name)
	return nil
}

// bundleFor returns the bundle of a configuration that has the given ones. change reports whether they differ
// from it. unsure reports whether a current authority is missing in them, or may have been added just now.
func (k *keeper) bundleFor(has []string, now time.Time) (bundle []byte, change, unsure bool) {
	held := map[string]bool{}
	for _, each := range has {
		parsed, _ := parseAuthorities([]byte(each))
		for _, authority := range parsed {
			held[printOf(authority)] = true
		}
	}
	var wanted authorities
	for _, print := range slices.Sorted(maps.Keys(k.known)) {
		known := k.known[print]
		if known.current || now.Before(known.until) || known.removed && held[print] {
			wanted = append(wanted, known.authority)
			change = change || !held[print]
		}
		unsure = unsure || known.current != held[print]
	}
	bundle = wanted.encode()
	if len(has) > 0 && !change && len(held) == len(wanted) {
		bundle = []byte(has[0]) // The same authorities, maybe in another order.
	}
	for _, each := range has {
		change = change || each != string(bundle)
	}
	return bundle, change, unsure
}
