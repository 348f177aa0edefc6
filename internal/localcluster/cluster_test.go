package localcluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// These tests start their own clusters to check how they end.

// ParentVariable makes TestMain run only BeAParentThatGetsKilled.
const ParentVariable = "BELLEROPHON_TEST_PARENT"

func TestClustersRunSideBySideAndStopLeavesNothing(t *testing.T) {
	var clusters [2]*Cluster
	group := lifecycle.New(t.Context())
	for i := range clusters {
		group.Go("start", func(ctx context.Context) (err error) {
			clusters[i], err = Start(ctx, Options{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, c := range clusters {
		t.Logf("the API of %s was ready after %v", c.AdminConfig().Host, c.APIReadyAfter())
	}
	for i, c := range clusters {
		began := time.Now()
		pids, listeners := pidsOf(c), listenersOf(c)
		if len(pids) != 5 || len(listeners) != 3 {
			t.Errorf("the cluster has %d processes and %d listeners, want 5 and 3", len(pids), len(listeners))
		}
		if i == 1 {
			// The second cluster still works after the first one was stopped.
			if _, err := clientOf(t, c).CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}); err != nil {
				t.Errorf("the second cluster, after the first was stopped: %v", err)
			}
		}
		if err := c.Stop(); err != nil {
			t.Errorf("Stop() = %v", err)
		}
		t.Logf("stopped after %v", time.Since(began))
		for _, pid := range pids {
			if !isGone(pid) {
				t.Errorf("process %d outlives Stop", pid)
			}
		}
		for _, listener := range listeners {
			if connection, err := net.Dial("tcp", listener); err == nil {
				connection.Close()
				t.Errorf("something still listens on %s", listener)
			}
		}
		if _, err := os.Stat(filepath.Dir(c.Kubeconfig())); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory outlives Stop: %v", err)
		}
		<-c.Done()
		if err := c.Err(); err != nil {
			t.Errorf("Err() after Stop = %v, want nil", err)
		}
		if err := c.Stop(); err != nil {
			t.Errorf("a second Stop() = %v", err)
		}
	}
}

func TestEtcdRefusesEverybodyButTheAPIServer(t *testing.T) {
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	version, err := c.EtcdVersion(t.Context())
	if err != nil {
		t.Error(err)
	}
	ca, err := os.ReadFile(c.directory.file("etcd-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	apiServer, err := tls.LoadX509KeyPair(c.directory.file("etcd-client.crt"), c.directory.file("etcd-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	admin, err := tls.X509KeyPair(c.admin.CertData, c.admin.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	for who, test := range map[string]struct {
		certificates []tls.Certificate
		served       bool
	}{
		"the API server":    {[]tls.Certificate{apiServer}, true},
		"the administrator": {[]tls.Certificate{admin}, false},
		"no certificate":    {nil, false},
	} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: test.certificates}}
		response, err := (&http.Client{Transport: transport}).Get("https://" + listenersOf(c)[0] + "/version")
		if err == nil {
			said, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if !strings.Contains(string(said), `"etcdserver":"`+version+`"`) {
				t.Errorf("EtcdVersion() = %s, but etcd says %s", version, said)
			}
		}
		if (err == nil) != test.served {
			t.Errorf("a request to etcd with the credentials of %s: %v; want an answer: %t", who, err, test.served)
		}
		transport.CloseIdleConnections()
	}
	if err := c.Stop(); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

func TestAComponentThatDiesIsNamed(t *testing.T) {
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Err(); err != nil {
		t.Errorf("Err() of a healthy cluster = %v", err)
	}
	scheduler := c.children.members[3].command
	if err := scheduler.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Err(); err == nil || !strings.HasPrefix(err.Error(), "kube-scheduler ended by itself (signal: killed)") {
		t.Errorf("Err() = %v, want one that names kube-scheduler and how it ended", err)
	}
	pids := pidsOf(c)
	if err := c.Stop(); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	for _, pid := range pids {
		if !isGone(pid) {
			t.Errorf("process %d outlives Stop", pid)
		}
	}
}

func TestPortsThatWereTakenMeanwhileAreReplaced(t *testing.T) {
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().(*net.TCPAddr).Port
	asked := 0
	options := completed(t, Options{CacheDir: sharedCache(t)})
	c, err := start(t.Context(), options, func(api int) (ports, error) {
		found, err := freePorts(api)
		switch asked++; asked {
		case 1:
			found.etcd = taken
		case 2:
			found.api = taken
		}
		return found, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if asked != 3 {
		t.Errorf("ports were chosen %d times, want 3: twice one was taken", asked)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, test := range map[string]struct {
		apiPort int
		cancel  bool
		want    string
	}{
		"as its port is taken": {apiPort: listener.Addr().(*net.TCPAddr).Port, want: "choose another port"},
		"as it was cancelled":  {cancel: true, want: context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			options := completed(t, Options{APIPort: test.apiPort})
			// An empty cache has no clusters of other tests. The binaries come from the shared
			// cache.
			programs, err := findPrograms(ctx, completed(t, Options{CacheDir: sharedCache(t)}))
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBEBUILDER_ASSETS", filepath.Dir(programs.path(kwokName)))
			options.Progress = func(p Progress) {
				if test.cancel && strings.HasPrefix(p.Phase, "starting etcd") {
					cancel()
				}
			}
			if _, err := Start(ctx, options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Start() = %v, want %q", err, test.want)
			}
			left, err := filepath.Glob(filepath.Join(options.CacheDir, "clusters", "cluster-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
		})
	}
}

func TestAKilledParentTakesItsClusterAlongAndTheNextStartSweeps(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), ParentVariable+"=yes")
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("reading what the parent says: %v", err)
	}
	directory, pids, _ := strings.Cut(strings.TrimSpace(said), " ")
	if len(strings.Fields(pids)) != 5 {
		t.Fatalf("the parent has said %q, want a directory and five processes", said)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // It was killed.
	for _, pid := range strings.Fields(pids) {
		waitGone(t, "a component of a killed parent", pid)
	}
	// A start in another process, such as another package's tests, may sweep first.
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(directory); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", directory, err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

// BeAParentThatGetsKilled starts a cluster in the process that the test above kills.
func BeAParentThatGetsKilled() error {
	options := Options{}
	if os.Getenv(ParentVariable) == string(RealNode) {
		options.Nodes = RealNode
	}
	c, err := Start(context.Background(), options)
	if err != nil {
		return err
	}
	said := []string{filepath.Dir(c.Kubeconfig())}
	for _, pid := range pidsOf(c) {
		said = append(said, strconv.Itoa(pid))
	}
	fmt.Println(strings.Join(said, " "))
	<-c.Done() // The process is killed before.
	return nil
}

func clientOf(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// sharedCache returns the cache directory that Start uses by default.
func sharedCache(t *testing.T) string {
	t.Helper()
	options, err := Options{}.complete()
	if err != nil {
		t.Fatal(err)
	}
	return options.CacheDir
}

func pidsOf(c *Cluster) []int {
	var pids []int
	for _, child := range c.children.members {
		pids = append(pids, child.command.Process.Pid)
	}
	return pids
}

// listenersOf returns the addresses that the cluster listens on, according to its arguments.
func listenersOf(c *Cluster) []string {
	var found []string
	for _, child := range c.children.members {
		for _, argument := range child.command.Args {
			name, value, _ := strings.Cut(argument, "=")
			switch name {
			case "--listen-client-urls", "--listen-peer-urls":
				found = append(found, strings.TrimPrefix(value, "https://"))
			case "--secure-port":
				if value != "0" {
					found = append(found, net.JoinHostPort(loopback, value))
				}
			}
		}
	}
	return found
}

// waitGone polls until a process has ended. The process is not a child of this one, so there is
// no event for its end.
func waitGone(t *testing.T, what, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !isGone(number) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Errorf("%s, process %d, is still there", what, number)
			return
		}
	}
}

// isGone reports whether the process has ended. A zombie has ended; its parent has not reaped it
// yet.
func isGone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(status), ") Z ")
}

func TestAClusterMayHaveTheAPIServerAlone(t *testing.T) {
	cluster, err := Start(t.Context(), Options{APIOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	for _, component := range []string{"kube-controller-manager", "kube-scheduler", "kwok"} {
		if cluster.PID(component) != 0 {
			t.Errorf("%s runs", component)
		}
	}
	if err := cluster.Stop(); err != nil {
		t.Error(err)
	}
}
