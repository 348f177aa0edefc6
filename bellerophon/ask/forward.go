package ask

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Deployed is an operator whose pods run in a cluster.
type Deployed struct {
	Config    *rest.Config // of the cluster
	Namespace string       // of the pods
	Selector  string       // the labels of the pods
}

// portName is the name of the container's port at which the metrics are served.
const portName = "metrics"

// Pods forwards a port to the metrics server of each running pod of the operator, through the API server, and asks as [Ask]
// does. With several pods, the answer counts that is better than the others. The token of the server is by default the one of
// d.Config. The certificate of the server is not verified: the API server and the kubelet are.
func Pods[T any](ctx context.Context, d Deployed, s Server, q Question, isBetter func(one, than T) bool, each func(T) error) error {
	group := lifecycle.New(ctx)
	defer func() {
		group.Stop()
		_ = group.Wait() // A forward that ends with its context has no news.
	}()
	best, answer, err := Best(ctx, group, d, s, q, isBetter)
	if err != nil {
		return err
	}
	if q.Follow {
		return Ask(ctx, best, q, each)
	}
	if err := each(answer); err != nil || q.Again == 0 {
		return err
	}
	select {
	case <-time.After(q.Again):
	case <-ctx.Done():
		return ctx.Err()
	}
	return askOnce(ctx, best, q, each)
}

// Best forwards ports as [Pods] does, until the group ends. It returns the server with the best answer, and this
// answer.
func Best[T any](ctx context.Context, group *lifecycle.Group, d Deployed, s Server, q Question, isBetter func(one, than T) bool) (best Server, answer T, err error) {
	client, err := kubernetes.NewForConfig(d.Config)
	if err != nil {
		return best, answer, err
	}
	patience := cmp.Or(s.Timeout, DefaultTimeout)
	listing, listed := context.WithTimeout(ctx, patience)
	defer listed()
	pods, err := client.CoreV1().Pods(d.Namespace).List(listing, metav1.ListOptions{LabelSelector: d.Selector, FieldSelector: "status.phase=Running"})
	if err != nil {
		return best, answer, fmt.Errorf("listing the operator's pods: %w", err)
	}
	if len(pods.Items) == 0 {
		return best, answer, fmt.Errorf("no pod with the labels %s runs in the namespace %s; name another one with --operator-namespace or --operator-selector", d.Selector, d.Namespace)
	}
	if s.TokenFile == "" {
		s.token, s.TokenFile = d.Config.BearerToken, d.Config.BearerTokenFile
	}
	s.Insecure = s.Authorities == ""
	once := q
	once.Follow, once.Again = false, 0
	var failed error
	slices.SortStableFunc(pods.Items, func(one, other corev1.Pod) int { return cmp.Compare(leaving(&one), leaving(&other)) })
	for i := range pods.Items {
		pod := &pods.Items[i]
		if leaving(pod) > 0 && best.URL != "" {
			break // It may be on a node that has gone, and another pod takes its place.
		}
		asked := s
		if asked.URL, err = d.forward(ctx, group, client, pod, patience); err == nil {
			var got T
			if err = Ask(ctx, asked, once, func(one T) error { got = one; return nil }); err == nil && (best.URL == "" || isBetter(got, answer)) {
				best, answer = asked, got
			}
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("pod %s: %w", pod.Name, err))
		}
	}
	if best.URL == "" {
		return best, answer, failed
	}
	return best, answer, nil
}

// leaving returns 1 for a pod that is being deleted, and 0 for another one.
func leaving(pod *corev1.Pod) int {
	if pod.DeletionTimestamp != nil {
		return 1
	}
	return 0
}

// forward forwards a free local port to the metrics server of a pod until the group ends. It returns the server's URL, or an error if the
// port is not forwarded in time.
func (d Deployed) forward(ctx context.Context, group *lifecycle.Group, client kubernetes.Interface, pod *corev1.Pod, patience time.Duration) (string, error) {
	port := int32(0)
	for _, container := range pod.Spec.Containers {
		for _, one := range container.Ports {
			if one.Name == portName {
				port = one.ContainerPort
			}
		}
	}
	if port == 0 {
		return "", fmt.Errorf("it has no port with the name %s", portName)
	}
	address := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(d.Config)
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	ready := make(chan struct{})
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, address)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, group.Context().Done(), ready, nil, &said)
	if err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	group.Go("forwarding to "+pod.Name, func(context.Context) error {
		ended <- forwarder.ForwardPorts()
		return nil
	})
	select {
	case <-ready:
	case err := <-ended:
		return "", fmt.Errorf("forwarding a port: %w", err)
	case <-time.After(patience):
		return "", fmt.Errorf("forwarding a port: the cluster has not answered for %v", patience)
	case <-ctx.Done():
		return "", ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("https://127.0.0.1:%d", ports[0].Local), nil
}
