package localcluster_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

// These tests check on the shared cluster that it behaves as Kubernetes does.

func TestAStatefulSetWithVolumesBecomesReady(t *testing.T) {
	client, namespace := newClient(t), clustertest.Namespace(t)
	began := time.Now()
	set := statefulSet("registry.example/app:1", 3)
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}}
	create(t, client, namespace, set)
	waitReady(t, client, namespace, 3)
	t.Logf("3/3 Ready after %v", time.Since(began))
	claims, err := client.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != 3 {
		t.Errorf("there are %d claims, want 3", len(claims.Items))
	}
	for _, claim := range claims.Items {
		if claim.Status.Phase != corev1.ClaimBound {
			t.Errorf("claim %s is %s, want Bound", claim.Name, claim.Status.Phase)
		}
	}
}

func TestAnInvalidRegistryGivesImagePullBackOffUntilTheImageIsCorrected(t *testing.T) {
	client, namespace := newClient(t), clustertest.Namespace(t)
	const image = "registry.invalid:5000/app:1"
	create(t, client, namespace, statefulSet(image, 2))
	pods := client.CoreV1().Pods(namespace)
	watcher, err := pods.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := until(t, watcher, func(pod *corev1.Pod) bool { return len(pod.Status.ContainerStatuses) > 0 })
	waiting := pod.Status.ContainerStatuses[0].State.Waiting
	if waiting == nil || waiting.Reason != "ImagePullBackOff" || !strings.Contains(waiting.Message, image) || pod.Status.Phase != corev1.PodPending {
		t.Errorf("the Pod is %s, its container waits for %+v; want Pending, ImagePullBackOff with %s", pod.Status.Phase, waiting, image)
	}

	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"registry.example/app:2"}]}}}}`
	if _, err := client.AppsV1().StatefulSets(namespace).Patch(t.Context(), "app", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	// A StatefulSet does not replace a Pod that was never Ready; users have to delete it.
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitReady(t, client, namespace, 2)
}

func TestAnImageThatIsCorrectedInThePodMakesItReady(t *testing.T) {
	client, namespace := newClient(t), clustertest.Namespace(t)
	pods := client.CoreV1().Pods(namespace)
	for name, image := range map[string]string{
		"main": `{"spec":{"containers":[{"name":"app","image":"registry.example/app:2"}]}}`,
		"init": `{"spec":{"initContainers":[{"name":"init","image":"registry.example/init:2"}]}}`,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: podSpec("a.invalid/app")}
		if name == "init" {
			pod.Spec = podSpec("registry.example/app:1")
			pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "b.invalid/init"}}
		}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		watcher, err := pods.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		until(t, watcher, func(pod *corev1.Pod) bool {
			for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
				if status.State.Waiting != nil && status.State.Waiting.Reason == "ImagePullBackOff" {
					return true
				}
			}
			return false
		})
		if _, err := pods.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(image), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		watcher, err = pods.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		until(t, watcher, func(pod *corev1.Pod) bool {
			return pod.Status.Phase == corev1.PodRunning && pod.Status.ContainerStatuses[0].Ready
		})
	}
}

func TestAServiceAccountWithoutRightsIsRefused(t *testing.T) {
	cluster, client, namespace := clustertest.Shared(t), newClient(t), clustertest.Namespace(t)
	request, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(cluster.AdminConfig())
	config.BearerToken = request.Status.Token
	account, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := account.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != "system:serviceaccount:"+namespace+":default" {
		t.Errorf("the token's user is %v, %v; want the service account", review, err)
	}
	if _, err := account.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets without rights: %v, want Forbidden", err)
	}
	anonymous, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(cluster.AdminConfig()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := anonymous.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("listing Secrets without credentials: %v, want Unauthorized", err)
	}
}

func TestPodSecurityIsEnforced(t *testing.T) {
	client, namespace := newClient(t), clustertest.Namespace(t)
	label := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`
	if _, err := client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, []byte(label), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: podSpec("app")}
	if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("creating an unrestricted Pod: %v, want Forbidden", err)
	}
}

func TestAClientThatDoesNotKnowTheAuthorityRefusesTheServer(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{}}
	response, err := client.Get(clustertest.Shared(t).AdminConfig().Host + "/readyz")
	if err == nil {
		response.Body.Close()
	}
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("a client with the system's authorities: %v, want an unknown authority", err)
	}
}

func TestTheNodeIsReadyAndItsLeaseIsRenewed(t *testing.T) {
	client := newClient(t)
	nodes, err := client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node := until(t, nodes, func(node *corev1.Node) bool {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
			}
		}
		return false
	})
	for name, want := range map[corev1.ResourceName]string{corev1.ResourceCPU: "1k", corev1.ResourceMemory: "1Ti", corev1.ResourcePods: "10k"} {
		if got := node.Status.Allocatable[name]; got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("the node has %s %s, want %s", got.String(), name, want)
		}
	}
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var first *metav1.MicroTime
	until(t, leases, func(lease *coordinationv1.Lease) bool {
		if first == nil {
			first = lease.Spec.RenewTime
		}
		return first != nil && lease.Spec.RenewTime.After(first.Time)
	})
}

func TestKubectlUsesTheKubeconfig(t *testing.T) {
	cluster := clustertest.Shared(t)
	output, err := exec.CommandContext(t.Context(), cluster.Kubectl(), "--kubeconfig", cluster.Kubeconfig(), "auth", "whoami").CombinedOutput()
	if err != nil || !strings.Contains(string(output), "system:masters") {
		t.Errorf("kubectl auth whoami: %v, %s; want system:masters", err, output)
	}
}

func newClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(clustertest.Shared(t).AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func podSpec(image string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}}
}

func statefulSet(image string, replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": "app"}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(image)},
		},
	}
}

func create(t *testing.T, client kubernetes.Interface, namespace string, set *appsv1.StatefulSet) {
	t.Helper()
	if _, err := client.AppsV1().StatefulSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func waitReady(t *testing.T, client kubernetes.Interface, namespace string, replicas int32) {
	t.Helper()
	watcher, err := client.AppsV1().StatefulSets(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, watcher, func(set *appsv1.StatefulSet) bool { return set.Status.ReadyReplicas == replicas })
}

// until reads a watch up to the first wanted object, returns the object, and stops the watch.
func until[T any](t *testing.T, watcher watch.Interface, wanted func(T) bool) T {
	t.Helper()
	defer watcher.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last any
	for {
		select {
		case event := <-watcher.ResultChan():
			last = event.Object
			if object, ok := event.Object.(T); ok && event.Type != watch.Deleted && wanted(object) {
				return object
			}
		case <-ctx.Done():
			t.Fatalf("waited in vain; last seen: %+v", last)
		}
	}
}
