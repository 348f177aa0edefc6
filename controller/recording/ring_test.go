package recording

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// cluster makes the records of a random history of objects, and knows which objects exist.
type cluster struct {
	random  *rand.Rand
	version int
	live    map[streams.Key]string
	ahead   []*Record // objects that a watch has brought, and that the cache has not applied
	at      uint64
}

func newCluster(seed uint64) *cluster {
	return &cluster{random: rand.New(rand.NewPCG(seed, 0)), live: map[streams.Key]string{}}
}

var horses = schema.GroupKind{Group: "stable", Kind: "Horse"}

// next returns the records of a change: a version of an object, and perhaps a batch with the events so far.
func (c *cluster) next() (records []*Record) {
	c.version++
	version := fmt.Sprint(c.version)
	key := streams.Key{GroupKind: horses, NamespacedName: types.NamespacedName{Namespace: "default", Name: fmt.Sprint("horse-", c.random.IntN(30))}}
	made := &Record{At: int64(c.version), Position: c.at, Object: &Object{Key: key, ResourceVersion: version, Body: []byte(strings.Repeat(version+" ", 100))}}
	c.ahead = append(c.ahead, made)
	records = append(records, made)
	if c.random.IntN(3) > 0 { // The debounce still holds it.
		return records
	}
	c.at++
	batch := &Record{At: int64(c.version), Position: c.at}
	if c.at == 1 {
		batch.Events = append(batch.Events, Event{Type: streams.ListStart, Key: streams.Key{GroupKind: horses}})
	}
	latest := map[streams.Key]string{}
	for _, object := range c.ahead {
		latest[object.Object.Key] = object.Object.ResourceVersion
	}
	for _, object := range c.ahead {
		key, version := object.Object.Key, object.Object.ResourceVersion
		if latest[key] != version { // Conflated.
			continue
		}
		event := Event{Type: streams.Applied, Key: key, ResourceVersion: version, HasObject: true}
		switch {
		case c.at == 1:
			event.Type, c.live[key] = streams.Listed, version
		case c.random.IntN(4) == 0:
			event.Type = streams.Deleted
			delete(c.live, key)
		default:
			c.live[key] = version
		}
		batch.Events = append(batch.Events, event)
	}
	if c.at == 1 {
		batch.Events = append(batch.Events, Event{Type: streams.ListEnd, Key: streams.Key{GroupKind: horses}, ResourceVersion: version})
	}
	c.ahead = nil
	return append(records, batch)
}

// state returns the objects that exist after the records of a recording, by the events alone. It fails the test if
// an event has no object.
func state(t *testing.T, of *Recording) map[streams.Key]string {
	t.Helper()
	live, known := map[streams.Key]string{}, map[string]bool{}
	for _, record := range of.Records {
		if record.Object != nil {
			known[record.Object.Key.String()+"@"+record.Object.ResourceVersion] = true
		}
		for _, event := range record.Events {
			if event.HasObject && event.Type != streams.Deleted && !known[event.Key.String()+"@"+event.ResourceVersion] {
				t.Fatalf("the recording lacks %s at %s", event.Key, event.ResourceVersion)
			}
			switch event.Type {
			case streams.ListStart:
				clear(live)
			case streams.Listed, streams.Applied:
				live[event.Key] = event.ResourceVersion
			case streams.Deleted:
				delete(live, event.Key)
			}
		}
	}
	return live
}

func TestARingKeepsItsBoundAndTheObjectsFromBeforeIt(t *testing.T) {
	for seed := range uint64(2) {
		var size atomic.Int64
		const most = 20 << 10
		ring := &ring{options: Options{Dir: t.TempDir(), Bytes: most, Age: time.Hour}, header: func() Header { return Header{Format: format} }, size: &size}
		cluster := newCluster(seed)
		for i := range 1000 {
			for _, record := range cluster.next() {
				if err := ring.add(record); err != nil {
					t.Fatal(err)
				}
			}
			if i%10 == 9 {
				if err := ring.flush(); err != nil {
					t.Fatal(err)
				}
				if size.Load() > most {
					t.Fatalf("the files have %d bytes; the bound is %d", size.Load(), most)
				}
			}
		}
		if err := ring.close(); err != nil {
			t.Fatal(err)
		}
		opened, err := Open(ring.options.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if !opened.IsCut || !opened.IsWhole || len(opened.Records) > 1200 {
			t.Errorf("it is cut: %v, whole: %v, and has %d records", opened.IsCut, opened.IsWhole, len(opened.Records))
		}
		if got := state(t, opened); !maps.Equal(got, cluster.live) {
			t.Fatalf("seed %d: the recording ends with %v, and the cluster has %v", seed, got, cluster.live)
		}
	}
}

// A stage of the program may drop events, so that no event applies what a watch has brought.
func TestARingDropsVersionsThatNoEventApplies(t *testing.T) {
	r, random := newRing(t), rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		body := make([]byte, 200)
		for j := range body {
			body[j] = byte(random.IntN(256)) // It cannot be compressed.
		}
		key := streams.Key{GroupKind: horses, NamespacedName: types.NamespacedName{Name: "dropped"}}
		err := r.add(&Record{At: int64(i) * int64(time.Minute), Position: uint64(i), Object: &Object{Key: key, ResourceVersion: fmt.Sprint(i), Body: body}})
		if i%10 == 9 {
			err = errors.Join(err, r.flush())
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.size.Load() > r.options.Bytes {
			t.Fatalf("after %d records the files have %d bytes, and %d are allowed", i, r.size.Load(), r.options.Bytes)
		}
	}
}

func TestARingDropsWhatIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // A slow disk makes no file older.
		var size atomic.Int64
		ring := &ring{options: Options{Dir: t.TempDir(), Bytes: 1 << 30, Age: 20 * time.Minute}, header: func() Header { return Header{Format: format} }, size: &size}
		cluster := newCluster(1)
		for range 30 {
			for _, record := range cluster.next() {
				if err := ring.add(record); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(5 * time.Minute)
			if err := ring.flush(); err != nil {
				t.Fatal(err)
			}
		}
		files, err := segmentsOf(ring.options.Dir)
		if err != nil || len(files) < 2 || len(files) > 2*segments || filepath.Base(files[0]) != baseName {
			t.Errorf("the files are %v, with the error %v", files, err)
		}
		if err := ring.close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestARecordingOfAWriterThatWasKilledIsReadUpToItsLastWholeRecord(t *testing.T) {
	var size atomic.Int64
	ring := &ring{options: Options{Dir: t.TempDir(), Bytes: 1 << 30, Age: time.Hour}, header: func() Header { return Header{Format: format} }, size: &size}
	cluster := newCluster(2)
	for range 200 {
		for _, record := range cluster.next() {
			if err := ring.add(record); err != nil {
				t.Fatal(err)
			}
		}
		if err := ring.flush(); err != nil {
			t.Fatal(err)
		}
	}
	path := ring.current.path
	if err := ring.close(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for length := range len(written) {
		if length%7 != 0 && length < len(written)-50 {
			continue
		}
		if err := os.WriteFile(path, written[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := Open(ring.options.Dir)
		if err != nil {
			if !strings.Contains(err.Error(), errOtherFormat.Error()) || last > 0 {
				t.Fatalf("with %d of %d bytes: %v", length, len(written), err)
			}
			continue
		}
		if opened.IsWhole || len(opened.Records) < last {
			t.Fatalf("with %d of %d bytes, it is whole: %v, with %d records; there were %d", length, len(written), opened.IsWhole, len(opened.Records), last)
		}
		last = len(opened.Records)
	}
	if last < 200 {
		t.Errorf("only %d records were read", last)
	}
}

func newWriter(t *testing.T, options Options) *Writer {
	t.Helper()
	options.Logger = slog.New(slog.DiscardHandler)
	made, err := NewWriter(options)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestADiskThatHangsEndsTheRecordingAndHoldsNothing(t *testing.T) {
	w := newWriter(t, Options{Dir: t.TempDir()})
	for range 100 {
		w.Put(Pending{Record: Record{Mark: "large"}}, mostPending/50)
	}
	if err := w.Err(); err == nil || !strings.Contains(err.Error(), "too slow") {
		t.Errorf("the failure is %v", err)
	}
	if len(w.pending) > 0 {
		t.Errorf("%d records are still held", len(w.pending))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx, nil); err != nil {
		t.Error(err)
	}
}

func TestAFolderThatVanishesEndsTheRecording(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recording")
	w := newWriter(t, Options{Dir: dir})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	w.Put(Pending{Record: Record{Mark: "a note"}}, 1)
	if err := w.Run(t.Context(), nil); err != nil { // It ends by itself.
		t.Error(err)
	}
	if w.Err() == nil {
		t.Error("the recording has not ended")
	}
}

func TestTheRecordingOfAnEarlierProcessIsKeptOnce(t *testing.T) {
	dir := t.TempDir()
	for _, note := range []string{"first", "second", "third"} {
		w := newWriter(t, Options{Dir: dir})
		w.Put(Pending{Record: Record{Mark: note}}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Run(ctx, func() map[string]schema.GroupKind { return map[string]schema.GroupKind{"stable": {Kind: "ConfigMap"}} }); err != nil {
			t.Fatal(err)
		}
	}
	for folder, want := range map[string]string{dir: "third", filepath.Join(dir, earlierName): "second"} {
		opened, err := Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(opened.Records) != 1 || opened.Records[0].Mark != want || !slices.Equal(opened.Controllers, []string{"stable"}) {
			t.Errorf("%s holds %+v, want %s", folder, opened, want)
		}
	}
}

func TestTheLastAnswerAboutResourcesAndTheControllersOfTheLastFileCount(t *testing.T) {
	controllers := []string{"stable"}
	r := newRing(t)
	r.header = func() Header { return Header{Format: format, UserAgent: "stables/v1", Controllers: controllers} }
	answers := func() (paths []string) {
		opened, err := Open(r.options.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(opened.Controllers, controllers) || opened.UserAgent != "stables/v1" {
			t.Errorf("the recording of %q has the controllers %q, want %q", opened.UserAgent, opened.Controllers, controllers)
		}
		for _, record := range opened.Records {
			paths = append(paths, record.Served.Path+" "+string(record.Served.Answer))
		}
		return paths
	}
	for _, answer := range []string{"one", "one", "two", "two"} {
		for _, path := range []string{"/api", "/apis"} {
			if err := r.add(&Record{Served: &Served{Path: path, Answer: []byte(answer)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(r.flush(), r.end()); err != nil {
		t.Fatal(err)
	}
	if got, want := answers(), []string{"/api one", "/apis one", "/api two", "/apis two"}; !slices.Equal(got, want) {
		t.Errorf("the recording has %q, want %q", got, want)
	}
	controllers = []string{"late", "stable"}
	if err := errors.Join(r.fold(), r.close()); err != nil {
		t.Fatal(err)
	}
	if got, want := answers(), []string{"/api two", "/apis two"}; !slices.Equal(got, want) {
		t.Errorf("the base has %q, want %q", got, want)
	}
}

func TestAWriterRefusesWhatItCannotUseWithAWayOut(t *testing.T) {
	used, foreign := t.TempDir(), t.TempDir()
	w := newWriter(t, Options{Dir: used})
	defer func() { _ = w.lock.Unlock() }()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, options := range map[string]Options{
		"Dir is empty; give a folder":                     {},
		"Bytes is 5; allowed is 1048576 (1 MiB)":          {Dir: used, Bytes: 5},
		"Age is 1s; allowed is 1m to 720h":                {Dir: used, Age: time.Second},
		"another process records into":                    {Dir: used},
		"thesis.txt, which is not of a recording; give a": {Dir: foreign},
	} {
		if _, err := NewWriter(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error is %v, want %s", options, err, want)
		}
	}
}

func TestOpenRefusesOtherFilesWithAWayOut(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "--record") {
		t.Errorf("an empty folder: %v", err)
	}
	path := filepath.Join(dir, "other")
	for _, content := range []string{"", "hello", strings.Repeat("\xff\x06\x00\x00S2sTwO", 3), strings.Repeat("\x00", 1000)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "no recording of this version") {
			t.Errorf("%q: %v", content, err)
		}
	}
}
