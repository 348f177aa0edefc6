package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var processChecks = []check{
	{"8.1", "It serves its metrics in the Prometheus text format", ofAll, servesMetrics},
	{"8.2", "It writes as fast as it can: no client-side rate limit", ofAll, writesFast},
	{"8.3", "It ends within 10 s of SIGTERM while it has work", ofAll, ends},
}

func servesMetrics(ctx context.Context, t *trial) error {
	ctx, cancel := context.WithTimeout(ctx, t.options.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.process.MetricsURL(), nil)
	if err != nil {
		return err
	}
	request.Close = true // Leaves no open connection.
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return fmt.Errorf("read its metrics: %w", err)
	}
	if len(families) == 0 {
		return errors.New("it serves no metrics")
	}
	t.note("%d families of metrics", len(families))
	return nil
}

// slowestRate is the minimum rate of writes a second with which a contender has to finish many
// objects. client-go's default limit is 5, and controller-runtime's is 20, with which 400 writes after a burst
// of 30 are 22 a second. The slowest contender without a limit, the tutorial, makes a hundred on two cores, and 31 on busy ones. A
// contender that is slower passes with a fifth of the suite's own rate.
const slowestRate = 25

// writesFast creates so many objects that the burst of a rate limiter does not matter.
func writesFast(ctx context.Context, t *trial) error {
	mark := t.proxy.mark()
	heroes, err := t.createAll(ctx, slices.Repeat([]int32{0}, 100)...)
	if err != nil {
		return err
	}
	for _, hero := range heroes {
		if _, err := t.awaitFinished(ctx, hero); err != nil {
			return err
		}
	}
	writes, _ := t.accepted(mark)
	took := writes[len(writes)-1].at.Sub(writes[0].at)
	rate := float64(len(writes)) / took.Seconds()
	want := float64(slowestRate)
	if rate < want {
		own, err := t.ownRate(ctx)
		if err != nil {
			return err
		}
		want = min(want, own/5)
		t.note("one client made %.0f writes a second, one after the other", own)
	}
	if rate < want {
		return fmt.Errorf("%d writes in %.1f s are %.0f a second, want at least %.0f", len(writes), took.Seconds(), rate, want)
	}
	t.note("%.0f writes a second", rate)
	return nil
}

// ownRate returns how many writes a second the API server accepts from the suite, one after the other. On a busy machine that
// is less than what shows that a process has no limit.
func (t *trial) ownRate(ctx context.Context) (float64, error) {
	const writes = 100
	began := time.Now()
	for i := range writes {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("rate-%d", i)}}}
		if _, err := t.any.Resource(configMaps).Namespace(t.namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return 0, fmt.Errorf("measure the rate of writes: %w", err)
		}
	}
	return writes / time.Since(began).Seconds(), nil
}

func ends(ctx context.Context, t *trial) error {
	if _, err := t.createAll(ctx, slices.Repeat([]int32{1}, 10)...); err != nil {
		return err
	}
	took, err := t.stop()
	t.note("it ended %.2f s after SIGTERM", took.Seconds())
	return err
}
