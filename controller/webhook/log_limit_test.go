package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/rest"
)

// flooded is a server without an API server, whose log is bounded in virtual time.
type flooded struct {
	http.Handler
	registry *prometheus.Registry
	log      *journal
	end      func()
}

func newFlooded(t *testing.T) *flooded {
	t.Helper()
	made := &flooded{registry: prometheus.NewRegistry(), log: &journal{}}
	server, err := webhook.New(&rest.Config{Host: "http://127.0.0.1:1"}, types(), webhook.Options{Service: "heroes/webhooks", Logger: made.log.logger(), Registry: made.registry})
	must(t, err)
	must(t, webhook.Validate(server, func(ctx context.Context, request webhook.Request[*Hero]) error {
		switch request.New.Spec.Horse {
		case "panic":
			panic("in vain")
		case "slow":
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}, webhook.Timeout(time.Second)))
	must(t, webhook.Convert(server, toV2, toV1))
	made.Handler = server.Handler()
	group := lifecycle.New(context.Background())
	group.Go("log", server.RunLog)
	made.end = func() {
		group.Stop()
		must(t, group.Wait())
	}
	return made
}

// records returns the lines of the log with a message.
func (f *flooded) records(message string) (found []string) {
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, "msg="+strconv.Quote(message)+" ") {
			found = append(found, line)
		}
	}
	return found
}

// leftOut adds up what the summaries say about a message.
func (f *flooded) leftOut(t *testing.T, message string) (sum, summaries int) {
	t.Helper()
	for _, line := range f.records("records about a webhook were left out") {
		if _, count, has := strings.Cut(strings.TrimSpace(line), "message="+strconv.Quote(message)+" dropped="); has {
			dropped, err := strconv.Atoi(count)
			must(t, err)
			sum += dropped
			summaries++
		}
	}
	return sum, summaries
}

func TestAFloodOfGarbageWritesABoundedNumberOfRecordsAndLosesNone(t *testing.T) {
	const seconds = 2
	hero := func(horse string) string {
		return review(admissionv1.Create, heroJSON("", `"horse":"`+horse+`"`), "")
	}
	for name, test := range map[string]struct {
		body      func(i int) string
		message   string
		code      int
		perSecond int // requests
		most      int // records a second
	}{
		"no JSON":             {func(int) string { return "\x00garbage" }, "webhook failed", 400, 10_000, 0},
		"no review":           {func(i int) string { return fmt.Sprintf(`{"kind":"%d"}`, i) }, "webhook failed", 400, 10_000, 0},
		"a list as an object": {func(int) string { return review(admissionv1.Create, `[]`, "") }, "webhook failed", 500, 10_000, 51},
		"a kind each": {func(i int) string {
			return review(admissionv1.Create, fmt.Sprintf(`{"apiVersion":"a/v1","kind":"Kind%d"}`, i), "")
		}, "webhook failed", 500, 10_000, 100},
		"a panic":    {func(int) string { return hero("panic") }, "webhook panicked", 500, 2000, 51},
		"a slow one": {func(int) string { return hero("slow") }, "webhook took too long", 504, 2000, 51},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFlooded(t)
				clients := lifecycle.New(context.Background())
				for burst := range 100 * seconds {
					for i := range test.perSecond / 100 {
						body := test.body(burst*test.perSecond + i)
						if test.code == http.StatusGatewayTimeout {
							clients.Go("client", func(context.Context) error { post(f, validatePath, body); return nil })
							continue
						}
						if got := post(f, validatePath, body); got.Code != test.code {
							t.Fatalf("garbage is answered with %d %s", got.Code, got.Body)
						}
					}
					<-time.After(10 * time.Millisecond)
				}
				must(t, clients.Wait())
				<-time.After(2 * time.Second)
				post(f, validatePath, review(admissionv1.Create, `[]`, `{"apiVersion":"a/v1","kind":"Another"}`)) // It comes last, and is seen.
				f.end()
				written := f.records(test.message)
				left, summaries := f.leftOut(t, test.message)
				most := test.most * (seconds + 2)
				if len(written) > most+1 || len(written) < test.most/2*seconds {
					t.Errorf("%d records are written in %d seconds, want at most %d", len(written), seconds, most)
				}
				failed := 0
				if test.most > 0 {
					failed = test.perSecond * seconds
				}
				if got := len(written) + left; got < failed || got > failed+1 {
					t.Errorf("%d records are written and %d counted as left out, of %d failures", len(written), left, failed)
				}
				if got := series(t, f.registry)["bellerophon_log_records_dropped_total"]; int(got) != left || summaries > seconds+2 {
					t.Errorf("the metric is %v, and %d summaries add up to %d", got, summaries, left)
				}
			})
		})
	}
}

func TestAFloodAtOnePathHidesNeitherAnotherErrorNorAnotherPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlooded(t)
		defer f.end()
		for range 1000 {
			post(f, validatePath, review(admissionv1.Create, `[]`, ""))
		}
		post(f, validatePath, review(admissionv1.Create, `{"apiVersion":"a/v1","kind":"Villain"}`, ""))
		post(f, validatePath, review(admissionv1.Create, heroJSON("", `"horse":"panic"`), ""))
		if log := f.log.String(); strings.Count(log, "Villain") != 1 || strings.Count(log, "in vain") == 0 {
			t.Errorf("the log lacks another error or another message:\n%s", log)
		}
	})
}

func TestALongErrorIsCutInTheLog(t *testing.T) {
	f := newFlooded(t)
	defer f.end()
	long := strings.Repeat("é", 1<<20)
	answer := post(f, validatePath, review(admissionv1.Create, `{"apiVersion":"a/v1","kind":"`+long+`"}`, ""))
	if answer.Code != http.StatusInternalServerError || answer.Body.Len() < 1<<20 {
		t.Fatalf("a long kind is answered with %d and %d bytes", answer.Code, answer.Body.Len())
	}
	records := f.records("webhook failed")
	if len(records) != 1 || len(records[0]) > 4096 || !strings.Contains(records[0], "bytes)") || strings.ContainsRune(records[0], '\uFFFD') {
		t.Errorf("%d records are written, with %d bytes in all", len(records), len(f.log.String()))
	}
}

func TestRecordsOfWebhooksThatTheLevelHidesAreNotLeftOut(t *testing.T) {
	registry := prometheus.NewRegistry()
	server, err := webhook.New(&rest.Config{Host: "http://127.0.0.1:1"}, types(), webhook.Options{Service: "heroes/webhooks", Logger: slog.New(slog.DiscardHandler), Registry: registry})
	must(t, err)
	must(t, webhook.Validate(server, func(context.Context, webhook.Request[*Hero]) error { return errors.New("no") }))
	for range 200 {
		post(server.Handler(), validatePath, review(admissionv1.Create, `[]`, ""))
	}
	if got := series(t, registry)["bellerophon_log_records_dropped_total"]; got != 0 {
		t.Errorf("%v records are left out", got)
	}
}
