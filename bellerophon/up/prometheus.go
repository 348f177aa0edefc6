package up

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"

	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/charts"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/promserver"
	"k8s.io/client-go/rest"
)

// rulesFile has the recording rules and the alerts, in the charts.
const rulesFile = "bellerophon-operator/files/rules.yaml"

// prometheusConfig is the configuration of Prometheus without its targets.
const prometheusConfig = `global: {scrape_interval: 2s, evaluation_interval: 2s}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: bellerophon-operator
`

// podsConfig scrapes the pods of the operator through the API server, with verbs for the kubeconfig, the namespace and the
// host of the API server. The pods of a real node are in a network of their own.
const podsConfig = `    scheme: https
    tls_config: {ca_file: ca.crt, cert_file: tls.crt, key_file: tls.key}
    kubernetes_sd_configs: [{role: pod, kubeconfig_file: %q, namespaces: {names: [%q]}}]
    relabel_configs:
      - {action: keep, source_labels: [__meta_kubernetes_pod_container_port_name], regex: metrics}
      - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
      - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
      - {source_labels: [__meta_kubernetes_pod_name], target_label: instance}
      - source_labels: [__meta_kubernetes_namespace, __meta_kubernetes_pod_name]
        regex: (.+);(.+)
        target_label: __metrics_path__
        replacement: /api/v1/namespaces/$1/pods/http:$2:8080/proxy/metrics
      - {target_label: __address__, replacement: %q}
`

// target is a process that Prometheus scrapes. Its labels are the ones that a ServiceMonitor adds, so that rules and
// dashboard work as in a cluster.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// scrapeOnce adds a Prometheus to a group, if the user asked for one. It scrapes the operator at the address that comes.
func (r *run) scrapeOnce(group *lifecycle.Group, listening <-chan net.Addr) {
	if !r.options.Prometheus {
		return
	}
	group.Go("Prometheus", func(ctx context.Context) error {
		select {
		case address := <-listening:
			return r.scrape(ctx, address.String())
		case <-ctx.Done():
			return nil
		}
	})
}

// scrape runs a Prometheus that scrapes the operator's processes at some addresses, until ctx ends.
func (r *run) scrape(ctx context.Context, addresses ...string) error {
	targets := make([]target, len(addresses))
	for i, address := range addresses {
		targets[i] = target{[]string{address}, map[string]string{"namespace": r.options.Namespace, "pod": fmt.Sprintf("operator-%d", i+1)}}
	}
	content, err := json.Marshal(targets) // JSON is YAML.
	if err != nil {
		return err
	}
	return r.runPrometheus(ctx, "    static_configs: "+string(content)+"\n", nil)
}

// scrapePods runs a Prometheus that scrapes the operator's pods in the local cluster, until ctx ends.
func (r *run) scrapePods(ctx context.Context, config *rest.Config) error {
	server, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("scraping by the API server: %w", err)
	}
	return r.runPrometheus(ctx, fmt.Sprintf(podsConfig, r.report.Cluster.Kubeconfig, install.Namespace, server.Host), map[string][]byte{
		"ca.crt": config.CAData, "tls.crt": config.CertData, "tls.key": config.KeyData,
	})
}

// runPrometheus runs a Prometheus with all rules until ctx ends, and prints its URL. Its folder is in the folder of a local
// cluster, which the next run removes if this process is killed.
func (r *run) runPrometheus(ctx context.Context, targets string, further map[string][]byte) error {
	rules, err := charts.Files.ReadFile(rulesFile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", rulesFile, err)
	}
	files := map[string][]byte{"prometheus.yml": []byte(prometheusConfig + targets), "rules.yaml": rules}
	maps.Copy(files, further)
	options := promserver.Options{Files: files, Arguments: []string{"--enable-feature=exemplar-storage"}}
	if r.report.Cluster.Local {
		options.Parent = filepath.Dir(r.report.Cluster.Kubeconfig)
	}
	return promserver.Run(ctx, options, func(ctx context.Context, url string) error {
		r.report.Prometheus = url
		r.screen.Println(r.tick() + " Prometheus scrapes the operator, with its rules and alerts: " + url)
		<-ctx.Done()
		return nil
	})
}
