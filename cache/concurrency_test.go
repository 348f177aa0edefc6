package cache_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An own write that is recorded just after its echo has passed must not wait for anything. In a
// quiet cluster, nothing would come for a long time to take it away.
func TestAnAnswerAndItsEchoAtTheSameTimeLeaveNothingBehind(t *testing.T) {
	for range 2000 {
		c, store := synced(t)
		start := make(chan struct{})
		group := lifecycle.New(t.Context())
		group.Go("watch", func(context.Context) error {
			<-start
			c.Apply([]streams.Event{applied("a/x", "u@6")})
			return nil
		})
		group.Go("answer", func(context.Context) error {
			<-start
			wrote(store, "a/x", "u@6")
			return nil
		})
		close(start)
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if level := c.Level(); level != cache.OwnWritesVisible {
			t.Fatalf("the level is %v", level)
		}
	}
}

// server is an API server that keeps the order of its writes.
type server struct {
	mu      sync.Mutex
	version int
	events  []streams.Event // what the watch has not sent yet
}

func (s *server) write(key, uid, app string) *metav1.PartialObjectMetadata {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	written := object(key, uid+"@"+strconv.Itoa(s.version), app)
	s.events = append(s.events, of(streams.Applied, written))
	return written
}

func (s *server) delete(key, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.events = append(s.events, deleted(key, uid+"@"+strconv.Itoa(s.version)))
}

func (s *server) take() []streams.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.events
	s.events = nil
	if len(taken) > 0 {
		taken = append(taken, bookmark(strconv.Itoa(s.version)))
	}
	return taken
}

// Each writer writes, deletes and recreates an object of its own. A watch reports all that, and
// readers read all the while. Run this test with -race.
func TestWritersReadTheirWritesWhileOthersReadAndTheWatchLags(t *testing.T) {
	const writers, rounds = 4, 150
	c, store := synced(t)
	api := &server{version: 10}
	writing, others := lifecycle.New(t.Context()), lifecycle.New(t.Context())
	for i := range writers {
		writing.Go("writer", func(context.Context) error { return writeAndRead(api, store, fmt.Sprintf("a/%d", i), rounds) })
	}
	others.Go("watch", func(ctx context.Context) error {
		for ctx.Err() == nil {
			c.Apply(api.take())
		}
		c.Apply(api.take())
		return nil
	})
	for range 2 {
		others.Go("reader", func(ctx context.Context) error { return readAll(ctx, store) })
	}
	if err := writing.Wait(); err != nil {
		t.Error(err)
	}
	others.Stop()
	if err := others.Wait(); err != nil {
		t.Error(err)
	}
	if level := c.Level(); level != cache.OwnWritesVisible || store.Len() != 0 || len(store.List("")) != 0 {
		t.Errorf("at the end the level is %v, with %d objects of which %v are read", level, store.Len(), held(store.List("")))
	}
	if counts := anomalies(store); len(counts) != 0 {
		t.Errorf("counted %v as odd", counts)
	}
}

func writeAndRead(api *server, store *cache.Store, key string, rounds int) error {
	for round := range rounds {
		uid := fmt.Sprintf("%s-%d", key, round)
		for _, app := range []string{"red", "blue"} {
			written := api.write(key, uid, app)
			store.RecordWrite(written, time.Now(), time.Time{})
			if now := got(store, key); now != stateOf(written) {
				return fmt.Errorf("after writing %s, %s is %s", stateOf(written), key, now)
			}
			if !slices.Contains(held(store.ByIndex("app", app)), key+" "+stateOf(written)) {
				return fmt.Errorf("after writing %s, %s is not %s", stateOf(written), key, app)
			}
		}
		api.delete(key, uid)
		store.RecordDeletion(named(key), types.UID(uid), time.Now())
		if now := got(store, key); now != "-" {
			return fmt.Errorf("after deleting %s, %s is %s", uid, key, now)
		}
	}
	return nil
}

func readAll(ctx context.Context, store *cache.Store) error {
	newest := map[string]int{}
	for ctx.Err() == nil {
		objects := store.List("a")
		for i, object := range objects {
			if i > 0 && objects[i-1].GetName() >= object.GetName() {
				return fmt.Errorf("the list is %v", held(objects))
			}
			version, err := strconv.Atoi(object.GetResourceVersion())
			if err != nil {
				return err
			}
			if version < newest[object.GetName()] {
				return fmt.Errorf("%s went back from %d to %d", object.GetName(), newest[object.GetName()], version)
			}
			newest[object.GetName()] = version
		}
		for _, object := range store.ByIndex("app", "red") {
			if object.GetLabels()["app"] != "red" {
				return fmt.Errorf("%s is not red", object.GetName())
			}
		}
	}
	return nil
}
