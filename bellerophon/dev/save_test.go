package dev_test

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/devtest"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/forward"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var saves = flag.Int("saves", 3, "how many saves TestASaveIsServed measures")

// restart builds the sample, ends the program that runs, and starts the new one. The first process of the
// container may never wait for an ended program. Its process ID stays then, but has no executable file.
const restart = `cd /projects && go build -o /tmp/greeting . || exit
if read -r pid </tmp/pid; then
	kill "$pid"
	while [ -e "/proc/$pid/exe" ]; do sleep 0.01; done
fi 2>/dev/null
/tmp/greeting </dev/null >/dev/null 2>&1 &
echo $! >/tmp/pid`

// TestASaveIsServed measures the time from a save to the page with the new content. Beside it, kubectl does the same
// in a pod of its own. Both pages come through the same kind of forward.
func TestASaveIsServed(t *testing.T) {
	s := newSession(t, "go")
	s.name = "greeting-go"
	s.start(dev.Options{})
	running := s.until(isRunning)
	address := running.Ports[0].Local
	s.page(address, "Hello from Go")
	b := newBare(t)
	b.copy("go.mod")
	b.serve()
	b.page(b.address, "Hello from Go")

	var took, bare []time.Duration
	var ratios []float64
	for i := range *saves {
		greeting := fmt.Sprintf("save %d", i)
		ways := []func(){
			func() {
				s.save(greeting)
				began := time.Now()
				// Requests for the page would take the processor from the build.
				running = s.until(func(status contract.Status) bool { return isRunning(status) && status.Run.Starts > running.Run.Starts })
				s.page(address, greeting)
				took = append(took, time.Since(began))
			},
			func() {
				b.save(greeting)
				began := time.Now()
				b.serve()
				b.page(b.address, greeting)
				bare = append(bare, time.Since(began))
			},
		}
		if i%2 == 1 { // What the first one leaves in caches must not favor one way.
			slices.Reverse(ways)
		}
		for _, way := range ways {
			way()
		}
		ratios = append(ratios, took[i].Seconds()/bare[i].Seconds())
	}
	t.Logf("from the save to the page: p50 %v, maximum %v; with kubectl: p50 %v, maximum %v", median(took), slices.Max(took), median(bare), slices.Max(bare))
	ratio := median(ratios)
	low, high := slices.Min(ratios), slices.Max(ratios)
	spread := "range"
	if len(ratios) >= 8 {
		spread = "95 % interval"
		low, high = interval(ratios)
	}
	t.Logf("ratios of %d pairs: median %.2f, %s %.2f to %.2f", len(ratios), ratio, spread, low, high)
	verdict := "open" // The interval has the target in it.
	switch {
	case high <= 1:
		verdict = "met"
	case low > 1:
		verdict = "missed"
	}
	t.Logf("goal\tsave to running beside kubectl cp\t%.2f\t<= 1.00\t%s", ratio, verdict)
}

// bare is a pod that is served by kubectl alone.
type bare struct {
	*session
	cluster *localcluster.Cluster
	at      container.Place
	address string
}

// newBare starts a pod as `bellerophon dev` does, and forwards its port.
func newBare(t *testing.T) *bare {
	t.Helper()
	b := &bare{session: newSession(t, "go"), cluster: clustertest.WithRealNode(t)}
	labels := map[string]string{"app": "bare"}
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "runtime", Image: devtest.GoImage,
			Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
			VolumeMounts: []corev1.VolumeMount{{Name: "projects", MountPath: "/projects"}},
		}},
		Volumes: []corev1.Volume{{Name: "projects", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "bare"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
	_, err := b.client.AppsV1().Deployments(b.namespace).Create(b.ctx, deployment, metav1.CreateOptions{})
	must(t, err)
	b.at, err = devtest.WaitContainer(b.ctx, b.client, b.namespace, "app=bare", "runtime")
	must(t, err)

	forwards, err := forward.New(b.config, forward.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	group := lifecycle.New(b.ctx)
	group.Go("forwards", forwards.Run)
	t.Cleanup(func() {
		group.Stop()
		_ = group.Wait() // The end of its context is no failure.
	})
	forwards.Set(b.at, []contract.Port{{Name: "http", Target: 8080}})
	bound := func() bool { ports := forwards.Bound(); return len(ports) == 1 && ports[0].Local != "" }
	for !bound() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-b.ctx.Done():
			t.Fatal("the port is not forwarded")
		}
	}
	b.address = forwards.Bound()[0].Local
	return b
}

// serve copies the program into the pod, builds it there, and starts it.
func (b *bare) serve() {
	b.t.Helper()
	b.copy("main.go")
	b.kubectl("exec", b.at.Pod, "--", "sh", "-c", restart)
}

// copy copies a file of the project into the pod.
func (b *bare) copy(name string) {
	b.t.Helper()
	b.kubectl("cp", filepath.Join(b.project, name), b.at.Pod+":/projects/"+name)
}

func (b *bare) kubectl(arguments ...string) {
	b.t.Helper()
	arguments = append([]string{"--kubeconfig=" + b.cluster.Kubeconfig(), "--namespace=" + b.namespace}, arguments...)
	if said, err := exec.CommandContext(b.ctx, b.cluster.Kubectl(), arguments...).CombinedOutput(); err != nil {
		b.t.Fatalf("kubectl %q: %v: %s", arguments, err, said)
	}
}

// median returns the median of some values.
func median[T time.Duration | float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// interval returns the 95 % interval of the median of some values, by a bootstrap.
func interval(values []float64) (low, high float64) {
	const resamples = 2000
	random := rand.New(rand.NewPCG(1, 28))
	medians, sample := make([]float64, resamples), make([]float64, len(values))
	for i := range medians {
		for j := range sample {
			sample[j] = values[random.IntN(len(values))]
		}
		medians[i] = median(sample)
	}
	slices.Sort(medians)
	return medians[resamples*25/1000], medians[resamples*975/1000]
}
