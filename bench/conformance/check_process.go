package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

var processChecks = []check{
	{"8.1", "It serves its metrics in the Prometheus text format", ofAll, servesMetrics},
	{"8.2", "It ends within 10 s of SIGTERM, in the middle of its work", ofAll, ends},
}

func servesMetrics(ctx context.Context, t *trial) error {
	ctx, cancel := context.WithTimeout(ctx, t.options.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.process.MetricsURL(), nil)
	if err != nil {
		return err
	}
	request.Close = true // No connection is left.
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return fmt.Errorf("reading its metrics: %w", err)
	}
	if len(families) == 0 {
		return errors.New("it serves no metrics")
	}
	t.note("%d families of metrics", len(families))
	return nil
}

func ends(ctx context.Context, t *trial) error {
	if _, err := t.createAll(ctx, slices.Repeat([]int32{1}, 10)...); err != nil {
		return err
	}
	took, err := t.stop()
	t.note("it ended %.2f s after SIGTERM", took.Seconds())
	return err
}
