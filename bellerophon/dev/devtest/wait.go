package devtest

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// listWatch lists and watches what narrow selects of a resource.
func listWatch[L runtime.Object](resource interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, narrow func(*metav1.ListOptions)) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			narrow(&options)
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			narrow(&options)
			return resource.Watch(ctx, options)
		},
	}
}

// WaitStatus waits until the Status of an application is as wanted, and returns it. It watches the ConfigMap,
// also after an outage of the API server. The error has the last Status.
func WaitStatus(ctx context.Context, client kubernetes.Interface, namespace, application string, wanted func(contract.Status) bool) (contract.Status, error) {
	name := contract.StatusName(application)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	lister := listWatch(client.CoreV1().ConfigMaps(namespace), func(options *metav1.ListOptions) { options.FieldSelector = selector })
	var last contract.Status
	_, err := watchtools.UntilWithSync(ctx, lister, &corev1.ConfigMap{}, nil, func(event watch.Event) (bool, error) {
		config, is := event.Object.(*corev1.ConfigMap)
		if !is || event.Type == watch.Deleted {
			return false, nil
		}
		var err error
		last, err = contract.StatusOf(config)
		return err == nil && wanted(last), err
	})
	if err != nil {
		return last, fmt.Errorf("wait for the Status of %s: %w; it is %+v", application, err, last)
	}
	return last, nil
}

// WaitContainer waits until a pod with the labels of a selector runs a container and is not being deleted. It
// returns the place of the container.
func WaitContainer(ctx context.Context, client kubernetes.Interface, namespace, selector, name string) (container.Place, error) {
	lister := listWatch(client.CoreV1().Pods(namespace), func(options *metav1.ListOptions) { options.LabelSelector = selector })
	var place container.Place
	last := corev1.PodStatus{}
	_, err := watchtools.UntilWithSync(ctx, lister, &corev1.Pod{}, nil, func(event watch.Event) (bool, error) {
		pod, is := event.Object.(*corev1.Pod)
		if !is || event.Type == watch.Deleted || pod.DeletionTimestamp != nil {
			return false, nil
		}
		last = pod.Status
		for _, status := range pod.Status.ContainerStatuses {
			if status.Name == name && status.State.Running != nil {
				place = container.Place{Namespace: namespace, Pod: pod.Name, PodUID: pod.UID, Container: name, ID: status.ContainerID}
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return place, fmt.Errorf("wait for the container %s of %s: %w; the last pod is %+v", name, selector, err, last)
	}
	return place, nil
}

// Get returns the body of a page. Any status other than 200 is an error.
func Get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	// A connection that is kept alive would be a goroutine that outlives the test.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s: %s", url, response.Status, body)
	}
	return string(body), err
}
