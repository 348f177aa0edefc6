package states

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

var metricLabel = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)

// writesOf returns the number of successful writes of resources so far, by resource and subresource. It
// reads the API server's own metrics, which also count writes that change nothing.
func writesOf(ctx context.Context, config *rest.Config, resources map[string]bool) (map[string]float64, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("states: create a client for the API server's metrics: %w", err)
	}
	defer client.CloseIdleConnections()
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("states: find the API server's metrics: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host.JoinPath("metrics").String(), nil)
	if err != nil {
		return nil, fmt.Errorf("states: read the API server's metrics: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("states: read the API server's metrics: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("states: read the API server's metrics: %s", answer.Status)
	}
	return countWrites(answer.Body, resources)
}

// countWrites counts the writes in a page of metrics.
func countWrites(page io.Reader, resources map[string]bool) (map[string]float64, error) {
	counts := map[string]float64{}
	lines := bufio.NewScanner(page)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "apiserver_request_total{") {
			continue
		}
		labels := map[string]string{}
		for _, match := range metricLabel.FindAllStringSubmatch(line, -1) {
			labels[match[1]] = match[2]
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
		default:
			continue
		}
		name := labels["resource"]
		if labels["group"] != "" {
			name += "." + labels["group"]
		}
		if !resources[name] || !strings.HasPrefix(labels["code"], "2") || labels["dry_run"] != "" {
			continue
		}
		count, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("states: read the API server's metrics: %w", err)
		}
		counts[strings.TrimSuffix(name+"/"+labels["subresource"], "/")] += count
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("states: read the API server's metrics: %w", err)
	}
	return counts, nil
}
