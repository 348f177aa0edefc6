package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/sources"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

const (
	locateTime  = 10 * time.Second // for all questions of one sync, so that some of its patience is left
	locateAgain = 10 * time.Second // how long the keeper waits until it asks again for a kind that it has not found
)

// located holds what the keeper has found about the plurals of kinds.
type located struct {
	found  map[*sources.Kind]bool // or may not be asked for
	missed map[*sources.Kind]bool // was not found at some time, which is in the log
	again  time.Time              // when to ask again for the kinds of webhooks that were not found; zero without any
}

func newLocated() located {
	return located{found: map[*sources.Kind]bool{}, missed: map[*sources.Kind]bool{}}
}

// locate asks the API server for the plurals of kinds that are not known yet. Until a kind is found, a webhook
// has the regular plural, and a conversion waits for its resource definition.
func (k *keeper) locate(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, locateTime)
	defer cancel()
	if !now.Before(k.again) {
		k.again = time.Time{}
		for _, hook := range k.hooks {
			if hook.given == nil {
				k.locateHook(ctx, hook, now)
			}
		}
	}
	for i, each := range k.of {
		if each.conversion == nil || each.name != "" {
			continue
		}
		plural, err := k.locateConversion(ctx, each.conversion)
		if k.of[i].lacks = err; err != nil {
			continue
		}
		k.of[i].name = plural + "." + each.conversion.kind.Group
		if err := k.watch(k.api.places[each.kind], types.NamespacedName{Name: k.of[i].name}); err != nil {
			return err
		}
	}
	return nil
}

// locateHook finds the plural of a webhook's kind. If it differs from the one that was applied, all
// configurations are applied again. A failure holds up neither certificates nor other webhooks.
func (k *keeper) locateHook(ctx context.Context, of *hook, now time.Time) {
	before := of.resource()
	err := k.find(ctx, &of.of)
	switch {
	case err != nil:
		k.again = now.Add(locateAgain)
		if !k.missed[&of.of] {
			k.missed[&of.of] = true
			k.log.Info("webhook has the regular plural until the API server serves its kind", "path", of.path(), "resource", before, "error", err)
		}
	case of.resource() != before:
		clear(k.applied)
	}
}

// locateConversion returns the plural of a kind that is converted, or why no version of it was found.
func (k *keeper) locateConversion(ctx context.Context, of *conversion) (plural string, err error) {
	for _, name := range slices.Sorted(maps.Keys(of.versions)) {
		kind := &of.versions[name].kind
		if err = k.find(ctx, kind); err == nil {
			return kind.Resource(), nil
		}
	}
	if errors.Is(err, sources.ErrNotServed) {
		err = fmt.Errorf("%w; install its resource definition", err)
	}
	return "", err
}

// find asks where a kind is served, unless that is known. If that is forbidden, the plural stays the regular
// one.
func (k *keeper) find(ctx context.Context, kind *sources.Kind) error {
	if k.found[kind] {
		return nil
	}
	client, err := kind.Client(k.api.config, k.api.http)
	if err != nil {
		return err
	}
	err = kind.Locate(ctx, client)
	if apierrors.IsForbidden(err) {
		k.log.Warn("webhook server may not ask where a kind is served, and assumes the regular plural", "kind", kind.GroupVersionKind.String(), "plural", kind.Resource(), "error", err)
		err = nil
	}
	k.found[kind] = err == nil
	return err
}
