package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/subprocess"
)

// prometheusConfig is the configuration of Prometheus, with a verb for the address of the usage.
// Contenders and the usage of processes are scraped once a second. The API server is scraped every
// 15 s because its metrics are large.
const prometheusConfig = `global:
  scrape_interval: 1s
rule_files: [rules.yml]
scrape_configs:
  - job_name: usage
    static_configs: [{targets: [%q]}]
  - job_name: contender
    file_sd_configs: [{files: [targets/contender.json]}]
  - job_name: apiserver
    scheme: https
    scrape_interval: 15s
    scrape_timeout: 10s
    authorization: {credentials_file: token}
    tls_config: {ca_file: ca.crt}
    file_sd_configs: [{files: [targets/apiserver.json]}]
`

// prometheusGrace is how long Prometheus may take to flush its data when it ends.
const prometheusGrace = 20 * time.Second

// prometheusServer is a Prometheus that runs during the rounds. Its data is in DIR/prometheus, its
// configuration in DIR/prometheus.d.
type prometheusServer struct {
	config string // the folder
	group  *lifecycle.Group
	url    string
}

// startPrometheus starts Prometheus, or returns nil if it is not on the PATH.
func startPrometheus(ctx context.Context, dir string, rules []byte, usage string) (*prometheusServer, error) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, nil //nolint:nilerr // It is optional: the caller prints that it is missing.
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	p := &prometheusServer{config: filepath.Join(dir, "prometheus.d"), group: lifecycle.New(context.WithoutCancel(ctx))}
	port, err := contender.FreePort()
	if err != nil {
		return nil, err
	}
	p.url = "http://127.0.0.1:" + strconv.Itoa(port)
	if err := os.MkdirAll(filepath.Join(p.config, "targets"), 0o755); err != nil {
		return nil, fmt.Errorf("making the configuration of Prometheus: %w", err)
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(p.config, "prometheus.yml"), fmt.Appendf(nil, prometheusConfig, usage), 0o644),
		os.WriteFile(filepath.Join(p.config, "rules.yml"), rules, 0o644),
		// The files must exist when Prometheus starts, or it would not watch them for changes.
		os.WriteFile(filepath.Join(p.config, "token"), nil, 0o600),
		os.WriteFile(filepath.Join(p.config, "ca.crt"), nil, 0o644),
		p.noTarget(),
	)
	if err != nil {
		return nil, fmt.Errorf("writing the configuration of Prometheus: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(p.config, "prometheus.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of Prometheus: %w", err)
	}
	started := make(chan error, 1)
	p.group.Go("prometheus", func(ctx context.Context) error {
		// The kernel kills Prometheus when the thread that started it ends. The lock keeps that
		// thread until Prometheus has ended, so that only the end of this process kills it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		command := exec.CommandContext(ctx, program,
			"--config.file="+filepath.Join(p.config, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "prometheus"),
			"--storage.tsdb.retention.time=10y", "--web.listen-address=127.0.0.1:"+strconv.Itoa(port), "--log.level=warn")
		command.Stdout, command.Stderr = log, log
		command.SysProcAttr = subprocess.Attributes()
		command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
		command.WaitDelay = prometheusGrace
		err := command.Start()
		started <- err
		if err != nil {
			return nil
		}
		if err := command.Wait(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("running Prometheus: it ended by itself (%w); see %s", err, log.Name())
		}
		return nil
	})
	if err := <-started; err != nil {
		p.group.Stop()
		return nil, errors.Join(fmt.Errorf("starting %s: %w", program, err), p.group.Wait())
	}
	return p, nil
}

// stop ends Prometheus. It returns an error if Prometheus had ended by itself before.
func (p *prometheusServer) stop() error {
	p.group.Stop()
	return p.group.Wait()
}

type targets struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// contender sets the contender to scrape, and its path. Prometheus takes up to 10 s to act on it:
// it gathers changes of targets for 5 s and applies them every 5 s. So the harness calls it before
// it starts the cluster.
func (p *prometheusServer) contender(round rundir.Round, port int, path string) error {
	labels := labelsOf(round)
	labels["__metrics_path__"] = path
	return p.write("contender", targets{Targets: []string{"127.0.0.1:" + strconv.Itoa(port)}, Labels: labels})
}

// server sets the API server to scrape.
func (p *prometheusServer) server(s *testbed, round rundir.Round) error {
	config := s.cluster.AdminConfig()
	server, err := serverAddress(config.Host)
	if err != nil {
		return err
	}
	return errors.Join(
		replaceFile(filepath.Join(p.config, "token"), []byte(s.token), 0o600),
		replaceFile(filepath.Join(p.config, "ca.crt"), config.CAData, 0o644),
		p.write("apiserver", targets{Targets: []string{server}, Labels: labelsOf(round)}),
	)
}

func labelsOf(round rundir.Round) map[string]string {
	return map[string]string{
		"contender": round.Contender, "scenario": round.Scenario, "variant": round.Variant, "setting": round.Setting, "round": round.ID(),
	}
}

// noTarget removes all targets.
func (p *prometheusServer) noTarget() error {
	return errors.Join(p.write("contender"), p.write("apiserver"))
}

func (p *prometheusServer) write(job string, groups ...targets) error {
	if groups == nil {
		groups = []targets{}
	}
	content, err := json.Marshal(groups)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(p.config, "targets", job+".json"), content, 0o644)
}

// replaceFile replaces a file atomically, because Prometheus may read it at any time.
func replaceFile(path string, content []byte, mode os.FileMode) error {
	if err := os.WriteFile(path+".new", content, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
