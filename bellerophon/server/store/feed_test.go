package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// The enemy changes other keys all the time. A watch of a quiet prefix must say that it lives nevertheless.
func TestAWatchOfAQuietPrefixSaysSoInABusyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := store.New()
		ctx, cancel := context.WithCancel(t.Context())
		silences, events := 0, 0
		group := lifecycle.New(ctx)
		group.Go("watching", func(ctx context.Context) error {
			return held.Watch(ctx, store.Following{Prefix: "quiet/", Silence: 15 * time.Second},
				func(store.Event) error { events++; return nil },
				func(silent bool) error {
					if silent {
						silences++
					}
					return nil
				})
		})
		put := func(key string) { held.Apply(store.Command{Kind: store.Put, Key: key, Value: []byte("x")}) }
		for range 61 {
			put("busy/a")
			<-time.After(time.Second)
		}
		synctest.Wait()
		if silences != 4 || events != 0 {
			t.Errorf("in 61 s it was silent %d times and saw %d events, want 4 and 0", silences, events)
		}
		put("quiet/a")
		<-time.After(14 * time.Second)
		synctest.Wait()
		if silences != 4 || events != 1 {
			t.Errorf("soon after an event it was silent %d times and saw %d events, want 4 and 1", silences, events)
		}
		cancel()
		if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
