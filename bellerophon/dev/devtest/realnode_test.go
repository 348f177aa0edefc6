package devtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
)

func TestMain(m *testing.M) {
	// client-go's goroutine for pings ends with the next ping after the end of a connection.
	clustertest.Main(m, goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"))
}

// node is a container on a real node.
type node struct {
	cluster *localcluster.Cluster
	config  *rest.Config
	client  kubernetes.Interface
	at      container.Place
}

// start runs a Deployment with one container of an image, as `bellerophon dev` makes it.
func start(ctx context.Context, t *testing.T, image string, load func(testing.TB, *localcluster.Cluster, string, ...string)) node {
	t.Helper()
	cluster := clustertest.WithRealNode(t)
	began := time.Now()
	load(t, cluster, image)
	t.Logf("%s is loaded after %v", image, time.Since(began))
	config := cluster.AdminConfig()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := clustertest.NamespaceIn(t, cluster)
	if _, err := client.AppsV1().Deployments(namespace).Create(ctx, deployment(image), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	at, err := WaitContainer(ctx, client, namespace, "app=app", "runtime")
	if err != nil {
		t.Fatal(err)
	}
	return node{cluster, config, client, at}
}

func deployment(image string) *appsv1.Deployment {
	labels := map[string]string{"app": "app"}
	volumes := map[string]string{"projects": "/projects", "bellerophon": "/opt/bellerophon"}
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "runtime", Image: image}}}
	for name, path := range volumes {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}

// sh runs a shell script in the container, and returns what it prints.
func (n node) sh(ctx context.Context, t *testing.T, script string) string {
	t.Helper()
	output, err := Exec(ctx, n.config, n.at, nil, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(output))
}

func TestFilesSentWithTarAreTheTreeOfTheContainer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := start(ctx, t, ScriptImage, clustertest.LoadSystem)
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, header := range []*tar.Header{
		{Typeflag: tar.TypeReg, Name: "deep/in/run.sh", Mode: 0o755, Size: 4},
		{Typeflag: tar.TypeReg, Name: "a file\nwith a line", Mode: 0o600, Size: 4},
		{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "deep/in/run.sh", Mode: 0o777},
	} {
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := writer.Write([]byte("text")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Exec(ctx, n.config, n.at, &archive, "tar", "-C", "/projects", "-xpf", "-"); err != nil {
		t.Fatal(err)
	}
	tree, err := Tree(ctx, n.config, n.at, "/projects")
	if err != nil {
		t.Fatal(err)
	}
	const sum = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"
	want := worktree.Tree{
		"deep/in/run.sh":      {Mode: 0o755, Size: 4, Sum: sum},
		"a file\nwith a line": {Mode: 0o600, Size: 4, Sum: sum},
		"link":                {Mode: fs.ModeSymlink | 0o777, Link: "deep/in/run.sh"},
	}
	if !maps.Equal(tree, want) {
		t.Errorf("the container has %v, want %v", tree, want)
	}
	if _, err := Exec(ctx, n.config, n.at, nil, "sh", "-c", "echo trouble >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "trouble") {
		t.Errorf("the error of a program that fails is %v, want its standard error", err)
	}
}

// `bellerophon dev` kills a command with its children by their process group.
func TestAnExecutedProgramLeadsASessionAndItsGroupCanBeKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := start(ctx, t, ScriptImage, clustertest.LoadSystem)
	ids := strings.Fields(n.sh(ctx, t, `read pid name state parent group session rest </proc/$$/stat; echo $pid $group $session`))
	if len(ids) != 3 || ids[0] != ids[1] || ids[0] != ids[2] {
		t.Errorf("process, group and session are %q, want one number", ids)
	}
	started := &firstWrite{done: make(chan struct{})}
	group := lifecycle.New(ctx)
	var err error
	group.Go("command", func(ctx context.Context) error {
		err = Stream(ctx, n.config, n.at, remotecommand.StreamOptions{Stdout: started}, "sh", "-c", "echo $$ >/tmp/leader; sleep infinity & echo started; sleep infinity")
		return nil
	})
	started.wait(ctx, t)
	n.sh(ctx, t, `kill -s KILL -- -$(cat /tmp/leader)`)
	_ = group.Wait() // The function returns no error.
	if exit := (clientexec.CodeExitError{}); !errors.As(err, &exit) || exit.Code != 128+9 {
		t.Errorf("the command ends with %v, want the exit code of SIGKILL", err)
	}
	if left := n.sh(ctx, t, `ps -o args= --sid $(cat /tmp/leader) || true`); left != "" {
		t.Errorf("processes are left: %s", left)
	}
}

func TestAnExecutedProgramOutlivesItsConnectionAndItsInputEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := start(ctx, t, ScriptImage, clustertest.LoadSystem)
	started := &firstWrite{done: make(chan struct{})}
	connection := lifecycle.New(ctx)
	connection.Go("command", func(ctx context.Context) error {
		input, end := io.Pipe()
		defer context.AfterFunc(ctx, func() { _ = end.Close() })()
		// The program also writes after the cut, which is no error for it.
		script := "echo $$ >/tmp/leader; echo started; cat >/dev/null; echo again && echo $? >/tmp/after; sleep infinity"
		return Stream(ctx, n.config, n.at, remotecommand.StreamOptions{Stdin: input, Stdout: started}, "sh", "-c", script)
	})
	started.wait(ctx, t)
	if said := n.sh(ctx, t, "cat /tmp/after 2>/dev/null || echo waits"); said != "waits" {
		t.Fatalf("the program has written %q before the cut", said)
	}
	connection.Stop()
	if err := connection.Wait(); err != nil {
		t.Errorf("the connection ended with %v, want the end of its context", err)
	}
	if said := n.sh(ctx, t, "until [ -s /tmp/after ]; do sleep 0.1; done; cat /tmp/after"); said != "0" {
		t.Errorf("after the cut, a write of the program fails with %s", said)
	}
	n.sh(ctx, t, "kill -0 $(cat /tmp/leader)")
}

func TestTheSampleInGoIsBuiltAndServes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	n := start(ctx, t, GoImage, clustertest.LoadGo)
	n.send(ctx, t, CopySample(t, "go"))
	began := time.Now()
	n.sh(ctx, t, "cd /projects && go build -o /tmp/greeting .")
	t.Logf("the build takes %v", time.Since(began))
	running := lifecycle.New(ctx)
	running.Go("run", func(ctx context.Context) error {
		return Stream(ctx, n.config, n.at, remotecommand.StreamOptions{Stdout: io.Discard}, "/tmp/greeting")
	})
	// The list of sockets has the port in hexadecimal digits once the program serves.
	n.sh(ctx, t, "until case $(cat /proc/net/tcp6) in *:1F90' '*) ;; *) false;; esac; do sleep 0.1; done")
	if page, err := Get(ctx, n.forward(t)); err != nil || page != "Hello from Go\n" {
		t.Errorf("the sample serves %q: %v", page, err)
	}
	running.Stop()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTheSampleScriptReadsItsFileAnew(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := start(ctx, t, ScriptImage, clustertest.LoadSystem)
	n.send(ctx, t, CopySample(t, "script"))
	script := `./greet.sh | while read -r line; do echo "$line"; [ "$line" = changed ] && kill 0; echo changed >greeting.txt; done`
	output, _ := Exec(ctx, n.config, n.at, nil, "sh", "-c", "cd /projects && "+script) // It kills itself.
	if lines := strings.Split(string(output), "\n"); lines[0] != "Hello from a script" || !strings.HasSuffix(string(output), "\nchanged\n") {
		t.Errorf("the sample prints %q", output)
	}
}

// send sends the files of a directory to /projects.
func (n node) send(ctx context.Context, t *testing.T, directory string) {
	t.Helper()
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	if err := errors.Join(writer.AddFS(os.DirFS(directory)), writer.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Exec(ctx, n.config, n.at, &archive, "tar", "-C", "/projects", "-xpf", "-"); err != nil {
		t.Fatal(err)
	}
}

// forward forwards the port 8080 of the container until the test ends, and returns its URL.
func (n node) forward(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), n.cluster.Kubectl(), "--kubeconfig="+n.cluster.Kubeconfig(), "--namespace="+n.at.Namespace, "port-forward", n.at.Pod, ":8080")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() }) // The context of the test has ended.
	var port int
	if _, err := fmt.Fscanf(output, "Forwarding from 127.0.0.1:%d", &port); err != nil {
		t.Fatalf("read the port that kubectl forwards: %v", err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// firstWrite closes a channel at the first write.
type firstWrite struct {
	once sync.Once
	done chan struct{}
}

func (f *firstWrite) Write(text []byte) (int, error) {
	f.once.Do(func() { close(f.done) })
	return len(text), nil
}

func (f *firstWrite) wait(ctx context.Context, t *testing.T) {
	t.Helper()
	select {
	case <-f.done:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
}
