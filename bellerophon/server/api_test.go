package server

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
	"github.com/bellerophon-io/bellerophon/internal/golden"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// single starts one member that forms a cluster alone.
func single(t *testing.T) (*world, *process) {
	t.Helper()
	w := newWorld(t, 1, true)
	w.ready(w.members[0])
	return w, w.members[0]
}

func TestAKeyIsChangedOnlyAtTheRevisionThatTheRequestNames(t *testing.T) {
	w, p := single(t)
	const key = "/v1/keys/horse"
	w.must(p, "GET", key, "", 404)
	w.must(p, "PUT", key, "pegasus", 412, "If-Match", `"1"`)
	w.must(p, "PUT", key, "pegasus", 200, "If-None-Match", "*")
	w.must(p, "PUT", key, "arion", 412, "If-None-Match", "*")
	got := w.must(p, "GET", key, "", 200)
	if got.body != "pegasus" || got.header.Get("ETag") != `"1"` {
		t.Errorf("the key is %q with ETag %s", got.body, got.header.Get("ETag"))
	}
	w.must(p, "PUT", key, "arion", 200, "If-Match", got.header.Get("ETag"))
	refused := w.must(p, "PUT", key, "buraq", 412, "If-Match", got.header.Get("ETag"))
	if want := `"changed":"no","revision":2`; !strings.Contains(refused.body, want) {
		t.Errorf("the refusal is %s, want %s in it", refused.body, want)
	}
	w.must(p, "DELETE", key, "", 412, "If-Match", `"1"`)
	w.must(p, "DELETE", key, "", 200, "If-Match", `"2"`)
	w.must(p, "DELETE", key, "", 200)
	w.must(p, "GET", key, "", 404)
	for _, header := range [][]string{{"If-Match", "x"}, {"If-Match", "*"}, {"If-None-Match", `"2"`}, {"If-Match", `"1"`, "If-None-Match", "*"}} {
		w.must(p, "PUT", key, "", 400, header...)
	}
}

func TestKeysMayHaveAnyCharactersOfAPath(t *testing.T) {
	w, p := single(t)
	for _, key := range []string{"a", "a/b", "a//b", "/a", "a/", "a/../b", ".", "a b", "é%", "a?b#c", strings.Repeat("k", 1024)} {
		path := "/v1/keys/" + url.PathEscape(key)
		w.must(p, "PUT", path, "value of "+key, 200)
		if got := w.must(p, "GET", path, "", 200); got.body != "value of "+key {
			t.Errorf("%q has %q", key, got.body)
		}
	}
	w.must(p, "PUT", "/v1/keys/", "", 400)
	w.must(p, "PUT", "/v1/keys/a%0Ab", "", 400)
	w.must(p, "PUT", "/v1/keys/"+strings.Repeat("k", 1025), "", 400)
	w.must(p, "POST", "/v1/keys/a", "", 405)
	w.must(p, "PUT", "/v1/keys/large", strings.Repeat("v", 1<<20), 200)
	w.must(p, "PUT", "/v1/keys/large", strings.Repeat("v", 1<<20+1), 413)
	w.must(p, "GET", "/v1/keys/a?consistency=eventually", "", 400)
	if got := w.must(p, "HEAD", "/v1/keys/a", "", 200); got.body != "" || got.header.Get("Content-Length") != "10" {
		t.Errorf("HEAD answers %q and a length of %s", got.body, got.header.Get("Content-Length"))
	}
}

// pages lists all keys of a prefix.
func (w *world) pages(p *process, prefix, limit string) (keys []string, revision uint64) {
	w.t.Helper()
	after := ""
	for {
		var page struct {
			Revision uint64
			Entries  []struct{ Key string }
			More     bool
		}
		got := w.must(p, "GET", "/v1/keys?prefix="+url.QueryEscape(prefix)+"&after="+url.QueryEscape(after)+"&limit="+limit, "", 200)
		if err := json.Unmarshal([]byte(got.body), &page); err != nil {
			w.t.Fatal(err)
		}
		for _, entry := range page.Entries {
			keys, after = append(keys, entry.Key), entry.Key
		}
		if !page.More {
			return keys, page.Revision
		}
	}
}

func TestAListHasAllKeysOfAPrefixInPages(t *testing.T) {
	w, p := single(t)
	for i := range 25 {
		w.must(p, "PUT", fmt.Sprintf("/v1/keys/heroes/%02d", i), "x", 200)
	}
	w.must(p, "PUT", "/v1/keys/horses/1", "x", 200)
	for _, limit := range []string{"1", "7", "25", "1000"} {
		keys, revision := w.pages(p, "heroes/", limit)
		if len(keys) != 25 || keys[0] != "heroes/00" || keys[24] != "heroes/24" || revision != 26 {
			t.Errorf("with limit %s: %v at revision %d", limit, keys, revision)
		}
	}
	w.must(p, "GET", "/v1/keys?limit=0", "", 400)
	w.must(p, "GET", "/v1/keys?limit=1001", "", 400)
}

// sse is a server-sent event.
type sse struct{ id, event, data string }

// watching sends the events of a watch, and closes the channel when the watch ends.
func (w *world) watching(ctx context.Context, p *process, query string, header ...string) <-chan sse {
	w.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.options.Address+"/v1/watch?"+query, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := plain.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	events := make(chan sse, 100)
	w.waiting.Go("reading a watch", func(context.Context) error {
		defer close(events)
		defer func() { _ = response.Body.Close() }()
		var now sse
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				now.id = value
			case "event":
				now.event = value
			case "data":
				now.data = value
			case "":
				if now.event != "" {
					events <- now
				}
				now = sse{}
			}
		}
		return nil
	})
	return events
}

func TestAWatchMissesNothingWhenItGoesOnAtAnotherMember(t *testing.T) {
	w := newWorld(t, 3, true)
	w.ready(w.members...)
	first, stop := context.WithCancel(t.Context())
	events := w.watching(first, w.members[0], "prefix=a/&after=0")
	w.must(w.members[1], "PUT", "/v1/keys/a/1", "one", 200)
	w.must(w.members[2], "PUT", "/v1/keys/b/1", "other", 200)
	w.must(w.members[1], "PUT", "/v1/keys/a/2", "two", 200)
	for _, want := range []sse{{"1", "put", `{"key":"a/1","value":"b25l","revision":1}`}, {"3", "put", `{"key":"a/2","value":"dHdv","revision":3}`}} {
		if got := <-events; got != want {
			t.Errorf("the event is %v, want %v", got, want)
		}
	}
	stop()
	w.must(w.members[0], "DELETE", "/v1/keys/a/1", "", 200)
	second, stop := context.WithCancel(t.Context())
	defer stop()
	events = w.watching(second, w.members[2], "prefix=a/&after=0", "Last-Event-ID", "3")
	if got, want := <-events, (sse{"4", "delete", `{"key":"a/1","value":null,"revision":4}`}); got != want {
		t.Errorf("the event is %v, want %v", got, want)
	}
	stop()
	w.must(w.members[0], "GET", "/v1/watch?after=x", "", 400)
	third, stop := context.WithCancel(t.Context())
	defer stop()
	if got := <-w.watching(third, w.members[1], "after=1000"); got.event != "expired" {
		t.Errorf("a watch of the future gets %v", got)
	}
}

func TestAMemberThatEndsEndsItsWatches(t *testing.T) {
	w, p := single(t)
	events := w.watching(t.Context(), p, "")
	began := time.Now()
	w.stop(p)
	if _, more := <-events; more {
		t.Error("the watch has an event")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
}

func TestABackupRestoresAllKeysAndNothingElse(t *testing.T) {
	w := newWorld(t, 3, true)
	w.ready(w.members...)
	for i := range 20 {
		w.must(w.members[i%3], "PUT", fmt.Sprint("/v1/keys/", i), strings.Repeat("v", i), 200)
	}
	backup := w.must(w.members[1], "GET", "/v1/snapshot", "", 200)
	if backup.header.Get("Bellerophon-Revision") != "20" {
		t.Errorf("the backup has the revision %s", backup.header.Get("Bellerophon-Revision"))
	}
	again := w.must(w.members[2], "GET", "/v1/snapshot", "", 200)
	if again.body != backup.body {
		t.Error("two members have different backups of the same revision")
	}
	w.must(w.members[0], "DELETE", "/v1/keys/7", "", 200)
	w.must(w.members[0], "PUT", "/v1/keys/new", "x", 200)
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	events := w.watching(watching, w.members[0], "")
	for _, damaged := range []string{"", "no backup", backup.body[:len(backup.body)-1], backup.body + "x"} {
		w.must(w.members[2], "PUT", "/v1/snapshot", damaged, 400)
	}
	w.must(w.members[0], "GET", "/v1/keys/new", "", 200)
	for _, p := range w.members {
		w.must(p, "PUT", "/v1/snapshot", backup.body, 200)
		keys, revision := w.pages(p, "", "1000")
		if len(keys) != 20 || revision <= 22 {
			t.Errorf("%d keys at revision %d, want 20 keys and a new revision", len(keys), revision)
		}
	}
	w.must(w.members[0], "GET", "/v1/keys/new", "", 404)
	if got := <-events; got.event != "expired" {
		t.Errorf("the watch of the former state gets %v", got)
	}
	// A client may hold an ETag from before the restore. It must not match, whatever the key had then.
	if got := w.must(w.members[0], "GET", "/v1/keys/7", "", 200); got.header.Get("ETag") == `"8"` || len(got.body) != 7 {
		t.Errorf("key 7 has ETag %s and %d bytes", got.header.Get("ETag"), len(got.body))
	}
	// A whole restart reads the restored state from the volumes.
	for _, p := range w.members {
		w.kill(p)
	}
	for _, p := range w.members {
		w.start(p)
	}
	w.ready(w.members...)
	if keys, _ := w.pages(w.members[1], "", "1000"); len(keys) != 20 {
		t.Errorf("after a restart there are %d keys", len(keys))
	}
}

// TestABackupOfARunningClusterIsAConsistentCut writes a growing number to one key after another. By the largest number in
// a backup, the numbers of all keys are known.
func TestABackupOfARunningClusterIsAConsistentCut(t *testing.T) {
	w := newWorld(t, 3, true)
	leader := w.ready(w.members...)
	for i := range 200 { // So that a backup takes longer than a write.
		w.must(leader, "PUT", fmt.Sprint("/v1/keys/filler-", i), strings.Repeat("x", 50<<10), 200)
	}
	const keys = 20
	key := func(number int) string { return fmt.Sprintf("counted-%02d", number%keys) }
	written := 0
	write := func() error {
		got, err := w.call(leader, "PUT", "/v1/keys/"+key(written), fmt.Sprint(written))
		if err == nil && got.code != http.StatusOK {
			err = fmt.Errorf("write %d: %d %s", written, got.code, got.body)
		}
		written++
		return err
	}
	for range keys {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	group := lifecycle.New(ctx)
	group.Go("writer", func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := write(); err != nil {
				return err
			}
		}
		return nil
	})
	moments := map[int]bool{}
	for i := range 15 {
		backup := w.must(w.members[i%3], "GET", "/v1/snapshot", "", 200)
		read, err := store.Read(strings.NewReader(backup.body))
		if err != nil {
			t.Fatal(err)
		}
		restored := store.New()
		restored.Restore(read)
		numbers, last := map[string]int{}, 0
		for number := range keys {
			entry, _, found := restored.Get(key(number))
			value, err := strconv.Atoi(string(entry.Value))
			if !found || err != nil {
				t.Fatalf("%s is %q", key(number), entry.Value)
			}
			numbers[key(number)] = value
			last = max(last, value)
		}
		moments[last] = true
		for number := last; number > last-keys; number-- {
			if numbers[key(number)] != number {
				t.Fatalf("at the write %d, %s is %d, want %d", last, key(number), numbers[key(number)], number)
			}
		}
	}
	stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if len(moments) < 5 {
		t.Errorf("the backups are of %d moments; nothing was written meanwhile", len(moments))
	}
}

func TestABackupSaysItsSum(t *testing.T) {
	_, p := single(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.options.Address+"/v1/snapshot", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := plain.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content := new(strings.Builder)
	if _, err := bufio.NewReader(response.Body).WriteTo(content); err != nil {
		t.Fatal(err)
	}
	// The sum is the last item of the content: 2 bytes of CBOR and 32 of the sum.
	sum := sha256.Sum256([]byte(content.String()[:content.Len()-34]))
	if got := response.Trailer.Get("Bellerophon-Sha256"); got != hex.EncodeToString(sum[:]) {
		t.Errorf("the trailer is %q, want %x", got, sum)
	}
}

func TestAFullStoreRefusesWritesAndTakesDeletionsAndSmallerValues(t *testing.T) {
	w := newWorld(t, 0, true)
	p := w.alone(w.dir+"/small", 1000)
	w.must(p, "PUT", "/v1/keys/a", strings.Repeat("v", 900), 200)
	refused := w.must(p, "PUT", "/v1/keys/b", strings.Repeat("v", 900), 507)
	if !strings.Contains(refused.body, "901 of 1000 bytes") {
		t.Errorf("the refusal is %s", refused.body)
	}
	w.must(p, "PUT", "/v1/keys/a", strings.Repeat("v", 1001), 507)
	w.must(p, "PUT", "/v1/keys/a", strings.Repeat("w", 900), 200)
	w.must(p, "PUT", "/v1/keys/a", strings.Repeat("v", 800), 200)
	w.must(p, "DELETE", "/v1/keys/a", "", 200)
	w.must(p, "PUT", "/v1/keys/b", strings.Repeat("v", 900), 200)
}

func TestMetricsSayWhatAMemberDoes(t *testing.T) {
	w, p := single(t)
	w.must(p, "PUT", "/v1/keys/a", "value", 200)
	w.must(p, "GET", "/v1/keys/none", "", 404)
	got := w.must(p, "GET", "/metrics", "", 200).body
	for _, want := range []string{
		"bellerophon_server_is_leader 1\n", "bellerophon_server_is_ready 1\n", "bellerophon_server_keys 1\n", "bellerophon_server_bytes 6\n",
		`bellerophon_server_request_seconds_count{code="200",operation="PUT /v1/keys/"} 1`,
		`bellerophon_server_request_seconds_count{code="404",operation="GET /v1/keys/"} 1`,
		"bellerophon_server_log_sync_seconds_count",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	golden.Names(t, "../../docs/names/metrics-server.txt", metricsIn(got))
}

var (
	typeLine = regexp.MustCompile(`(?m)^# TYPE (bellerophon_\w+) (\w+)$`)
	label    = regexp.MustCompile(`(\w+)="`)
)

// metricsIn returns the metrics of a page with their types and labels, as rows of docs/names.
func metricsIn(page string) (rows []string) {
	for _, found := range typeLine.FindAllStringSubmatch(page, -1) {
		_, series, _ := strings.Cut(page, found[0]+"\n")
		series, _, _ = strings.Cut(series, "\n")
		var labels []string
		for _, one := range label.FindAllStringSubmatch(series, -1) {
			if one[1] != "le" {
				labels = append(labels, one[1])
			}
		}
		rows = append(rows, fmt.Sprintf("%s\t%s %s", found[1], found[2], labels))
	}
	return rows
}
