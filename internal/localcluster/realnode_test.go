package localcluster_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

const workload = "bellerophon-io/workload:v1"

// realNode is a cluster with a real node, and a namespace whose Pods may only be restricted ones.
type realNode struct {
	*localcluster.Cluster
	client    kubernetes.Interface
	namespace string
}

func newRealNode(t *testing.T) realNode {
	t.Helper()
	cluster := clustertest.WithRealNode(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	r := realNode{cluster, client, clustertest.NamespaceIn(t, cluster)}
	label := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`
	if _, err := client.CoreV1().Namespaces().Patch(t.Context(), r.namespace, types.MergePatchType, []byte(label), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.LoadWorkload(t, cluster, workload)
	return r
}

// kubectl is run, where an error fails the test.
func (r realNode) kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := r.run(t, arguments...)
	if err != nil {
		t.Error(err)
	}
	return output
}

// run runs kubectl in the namespace, and returns what it prints.
func (r realNode) run(t *testing.T, arguments ...string) (string, error) {
	command := exec.CommandContext(t.Context(), r.Kubectl(), append([]string{"--kubeconfig=" + r.Kubeconfig(), "--namespace=" + r.namespace}, arguments...)...)
	var trouble bytes.Buffer
	command.Stderr = &trouble
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(arguments, " "), err, trouble.String())
	}
	return strings.TrimSpace(string(output)), err
}

func TestARealNodeRunsPodsWithLogsExecPortsNamesAndVolumes(t *testing.T) {
	r := newRealNode(t)
	began := time.Now()
	create(t, r.client, r.namespace, restrictedSet())
	for _, name := range []string{"app", "entry"} { // One has the names of the Pods, and one an address of its own.
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "app"},
				Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
			},
		}
		if name == "app" {
			service.Spec.ClusterIP = corev1.ClusterIPNone
		}
		if _, err := r.client.CoreV1().Services(r.namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitReady(t, r.client, r.namespace, 2)
	t.Logf("2/2 Ready after %v", time.Since(began))

	if got := r.kubectl(t, "logs", "app-1"); got != "serving as app-1" {
		t.Errorf("the log is %q", got)
	}
	if got := r.kubectl(t, "exec", "app-0", "--", "/workload", "user"); got != "65532" {
		t.Errorf("the container runs as user %s", got)
	}
	pod, err := r.client.CoreV1().Pods(r.namespace).Get(t.Context(), "app-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.waitInPod(t, func(got string) bool { return got == pod.Status.PodIP }, "resolve", "app-1.app")
	r.waitInPod(t, func(got string) bool { return strings.HasPrefix(got, "app-") }, "get", "http://entry")
	if got := r.forwarded(t, "app-1"); got != "app-1" {
		t.Errorf("the forwarded port answers %q", got)
	}

	// The data outlive the Pod.
	r.kubectl(t, "exec", "app-0", "--", "/workload", "write", "/data/file", "kept")
	r.kubectl(t, "delete", "pod", "app-0", "--grace-period=1")
	waitReady(t, r.client, r.namespace, 2)
	if got := r.kubectl(t, "exec", "app-0", "--", "/workload", "read", "/data/file"); got != "kept" {
		t.Errorf("the new Pod reads %q", got)
	}
}

// waitInPod runs a command of the workload in app-0 until its output is as wanted. CoreDNS and kube-proxy
// learn from a watch which Pods are ready, so they may know it after the test does.
func (r realNode) waitInPod(t *testing.T, wanted func(string) bool, command ...string) {
	t.Helper()
	arguments := append([]string{"exec", "app-0", "--", "/workload"}, command...)
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		output, err := r.run(t, arguments...)
		last = fmt.Sprint(output, err)
		return err == nil && wanted(output), nil
	})
	if err != nil {
		t.Errorf("in app-0, %s still prints: %s", strings.Join(command, " "), last)
	}
}

// forwarded requests a page through `kubectl port-forward`.
func (r realNode) forwarded(t *testing.T, pod string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	command := exec.CommandContext(ctx, r.Kubectl(), "--kubeconfig="+r.Kubeconfig(), "--namespace="+r.namespace, "port-forward", pod, ":8080")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = command.Wait() // Its error is the end of the context.
	}()
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("kubectl port-forward printed %q: %v", line, err)
	}
	var port int
	if _, err := fmt.Sscanf(line, "Forwarding from 127.0.0.1:%d", &port); err != nil {
		t.Fatalf("kubectl port-forward printed %q: %v", line, err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(page)
}

// restrictedSet returns a StatefulSet that the profile restricted allows, with a claim.
func restrictedSet() *appsv1.StatefulSet {
	set := statefulSet(workload, 2)
	yes, no, user := true, false, int64(65532)
	set.Spec.ServiceName = "app"
	pod := &set.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = new(int64)
	*pod.TerminationGracePeriodSeconds = 1
	pod.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	container := &pod.Containers[0]
	container.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	container.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}},
		PeriodSeconds: 1,
	}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}}
	return set
}
