package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/charts"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/promserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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

// podsConfig scrapes the pods of the operator through the API server, because a real node has a network of its own. The
// Prometheus of Debian cannot find pods by itself, so followPods writes their file.
const podsConfig = `    scheme: https
    tls_config: {ca_file: ca.crt, cert_file: tls.crt, key_file: tls.key}
    file_sd_configs: [{files: [` + podsFile + `], refresh_interval: 5s}]
`

const (
	podsFile  = "pods.json"
	podsEvery = 2 * time.Second // between two looks at the pods
)

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
	return r.runPrometheus(ctx, "    static_configs: "+string(content)+"\n", nil, nil)
}

// scrapePods runs a Prometheus that scrapes the operator's pods in the local cluster, until ctx ends.
func (r *run) scrapePods(ctx context.Context, config *rest.Config) error {
	server, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("scraping by the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	files := map[string][]byte{podsFile: []byte("[]"), "ca.crt": config.CAData, "tls.crt": config.CertData, "tls.key": config.KeyData}
	return r.runPrometheus(ctx, podsConfig, files, func(ctx context.Context, folder string) error {
		return r.followPods(ctx, client, server.Host, filepath.Join(folder, podsFile))
	})
}

// followPods keeps a file for Prometheus with the pods of the operator, until ctx ends.
func (r *run) followPods(ctx context.Context, client kubernetes.Interface, server, file string) error {
	every := time.NewTicker(podsEvery)
	defer every.Stop()
	for written := ""; ; {
		pods, err := client.CoreV1().Pods(install.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=bellerophon-operator"})
		if err == nil {
			targets := make([]target, len(pods.Items))
			for i, pod := range pods.Items {
				targets[i] = target{[]string{server}, map[string]string{
					"namespace": pod.Namespace, "pod": pod.Name, "instance": pod.Name,
					"__metrics_path__": fmt.Sprintf("/api/v1/namespaces/%s/pods/http:%s:8080/proxy/metrics", pod.Namespace, pod.Name),
				}}
			}
			content, err := json.Marshal(targets)
			if err != nil {
				return err
			}
			if string(content) != written { // Prometheus may read the file at any time, so it is replaced.
				if err := errors.Join(os.WriteFile(file+".new", content, 0o600), os.Rename(file+".new", file)); err != nil {
					return fmt.Errorf("writing the targets of Prometheus: %w", err)
				}
				written = string(content)
			}
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// runPrometheus runs a Prometheus with all rules until ctx ends, and prints its URL. It also runs a function, if there is
// one. The folder is in the one of a local cluster, which the next run removes if this process is killed.
func (r *run) runPrometheus(ctx context.Context, targets string, further map[string][]byte, follow func(ctx context.Context, folder string) error) error {
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
	return promserver.Run(ctx, options, func(ctx context.Context, started promserver.Running) error {
		r.report.Prometheus = started.URL
		r.screen.Println(r.tick() + " Prometheus scrapes the operator, with its rules and alerts: " + started.URL)
		if follow != nil {
			return follow(ctx, started.Folder)
		}
		<-ctx.Done()
		return nil
	})
}
