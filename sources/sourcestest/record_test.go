package sourcestest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// emitted collects what a stream emits for a time, each item with the time since its start.
func emitted(t *testing.T, stream streams.Stream[streams.Event], during time.Duration) (items []string, events []streams.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	started := time.Now()
	err := streams.ForEach(ctx, stream, func(batch []streams.Event) {
		for _, event := range batch {
			items = append(items, fmt.Sprintf("%v %d %v %s@%s reset=%t received=%v coalesced=%d", time.Since(started), len(batch), event.Type, event.Key,
				event.ResourceVersion, event.Reset, event.Received.Sub(started), len(event.Coalesced)))
		}
		events = append(events, batch...)
	}, func(err error) { items = append(items, fmt.Sprintf("%v error %v", time.Since(started), err)) })
	if err != nil {
		t.Error(err)
	}
	return items, events
}

func watchOf(t *testing.T, server *sourcestest.Server, object streams.Object) streams.Stream[streams.Event] {
	t.Helper()
	kind, err := sources.KindOf(scheme.Scheme, object)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kind.Client(server.Config(), &http.Client{Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	return sources.Watch(client, kind, sources.WatchOptions{})
}

func TestARecordingOfAWatchIsPlayedBackAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme, Script: []sourcestest.Fault{
			{Action: sourcestest.Refuse, Verb: "watch", Code: 503, Nth: 2},
		}})
		if err != nil {
			t.Fatal(err)
		}
		must := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		config := func(value string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Data: map[string]string{"value": value}}
		}
		must(server.Create(config("1")))
		for after, happens := range map[time.Duration]func(){
			time.Second:      func() { must(server.Update(config("2"))) },
			time.Minute:      server.Break,
			10 * time.Minute: func() { must(server.Delete(config(""))) },
		} {
			timer := time.AfterFunc(after, happens)
			defer timer.Stop()
		}
		name := filepath.Join(t.TempDir(), "watch.jsonl")
		file, err := os.Create(name)
		must(err)
		was, events := emitted(t, sourcestest.Record(watchOf(t, server, &corev1.ConfigMap{}), file), time.Hour)
		must(file.Close())
		if len(was) < 8 || !strings.Contains(strings.Join(was, "\n"), "error") || !strings.Contains(strings.Join(was, "\n"), "Deleted") {
			t.Fatalf("the watch emitted\n%s", strings.Join(was, "\n"))
		}
		recording, err := os.ReadFile(name)
		must(err)
		stream, err := sourcestest.Play(bytes.NewReader(recording), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			is, played := emitted(t, stream, time.Hour)
			if !reflect.DeepEqual(was, is) {
				t.Errorf("the watch emitted\n%s\nand the recording\n%s", strings.Join(was, "\n"), strings.Join(is, "\n"))
			}
			for i := range played {
				if !reflect.DeepEqual(played[i].Object, events[i].Object) || played[i].Source != events[i].Source {
					t.Errorf("event %d is %+v, and was %+v", i, played[i], events[i])
				}
			}
		}
	})
}

func TestARecordingHasNoValuesOfASecret(t *testing.T) {
	const canary = "canary"
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", Annotations: map[string]string{"applied": canary}, Labels: map[string]string{"app": "web"}},
			Data:       map[string][]byte{"password": []byte(canary)}, StringData: map[string]string{"token": canary}, Type: corev1.SecretTypeOpaque,
		}); err != nil {
			t.Fatal(err)
		}
		var recording bytes.Buffer
		if _, events := emitted(t, sourcestest.Record(watchOf(t, server, &corev1.Secret{}), &recording), time.Second); len(events) < 3 {
			t.Fatalf("the watch emitted %v", events)
		}
		for _, value := range []string{canary, "Y2FuYXJ5"} {
			if strings.Contains(recording.String(), value) {
				t.Errorf("the recording has a value of the Secret:\n%s", recording.String())
			}
		}
		stream, err := sourcestest.Play(&recording, &corev1.Secret{})
		if err != nil {
			t.Fatal(err)
		}
		_, events := emitted(t, stream, time.Second)
		if played := events[1].Object.(*corev1.Secret); string(played.Data["password"]) != "redacted" || played.Labels["app"] != "web" {
			t.Errorf("the Secret is played as %v", played)
		}
	})
}

// full is a writer without room.
type full struct{ room int }

func (f *full) Write(text []byte) (int, error) {
	if f.room--; f.room < 0 {
		return 0, errors.New("the disk is full")
	}
	return len(text), nil
}

func TestARecordingThatCannotBeWrittenLeavesTheStreamAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		items, events := emitted(t, sourcestest.Record(watchOf(t, server, &corev1.ConfigMap{}), &full{1}), 5*time.Minute)
		said := strings.Count(strings.Join(items, "\n"), "the recording ends at an event of ConfigMap")
		if said != 1 || len(events) < 4 {
			t.Errorf("it emitted\n%s\nwant all events and one error", strings.Join(items, "\n"))
		}
	})
}

func TestARecordingThatCannotBeReadIsAnErrorWithItsLine(t *testing.T) {
	for want, recording := range map[string]string{
		"line 1 of the recording: ":                                 "nonsense",
		"line 2 of the recording: ":                                 "{\"at\":1,\"batch\":0,\"key\":{}}\n{\"at\":",
		"line 1 of the recording: json: unknown field \"odd\"":      `{"odd":1}`,
		"the object is a *v1.Pod; give Play an example of the type": `{"goType":"*v1.Pod","object":{}}`,
		"line 1 of the recording: json: cannot unmarshal":           `{"goType":"*v1.ConfigMap","object":[]}`,
	} {
		if _, err := sourcestest.Play(strings.NewReader(recording), &corev1.ConfigMap{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
	if _, err := sourcestest.Play(strings.NewReader("")); err != nil {
		t.Errorf("an empty recording is an error: %v", err)
	}
}
