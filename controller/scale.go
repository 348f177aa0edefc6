package controller

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// GetScale returns the wanted and the observed number of replicas of an object of type T, from the
// subresource scale. It costs a request.
func GetScale[T streams.Object](ctx context.Context, c *Client, name types.NamespacedName, options ...ReadOption) (*autoscalingv1.Scale, error) {
	wanted := reading{}.applied(options)
	kind, err := c.form(typeOf[T](wanted), wanted.kind)
	if err == nil {
		err = wanted.ofOne()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get the scale of %s: %w", name, err)
	}
	body, err := kind.to(ctx, kind.requests.Get(), name.Namespace).
		Name(name.Name).SubResource("scale").
		SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	return scaleOf(kind, name, body, "get", err)
}

// Scale sets the wanted number of replicas of an object, through its subresource scale. For a kind in the
// cache, another request reads the object, so that the next read sees it. It takes the options of
// [Create].
func Scale[T streams.Object](ctx context.Context, c *Client, object T, replicas int32, options ...WriteOption) (*autoscalingv1.Scale, error) {
	how, err := writingOf(options, 0)
	var kind *form
	if err == nil {
		kind, err = c.named(object)
	}
	if err == nil && replicas < 0 {
		err = fmt.Errorf("replicas is %d; allowed is 0 and above", replicas)
	}
	if err != nil {
		return nil, writeError("scale", kind, object, err)
	}
	name := nameOf(object)
	body, err := kind.to(ctx, how.params(kind.requests.Patch(types.MergePatchType), c.fieldManagerOf(ctx)), name.Namespace).
		Name(name.Name).SubResource("scale").
		SetHeader("Accept", runtime.ContentTypeJSON).
		Body(fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)).Do(ctx).Raw()
	scaled, err := scaleOf(kind, name, body, "scale", err)
	if err != nil || how.dryRun {
		return scaled, err
	}
	key := streams.Key{GroupKind: kind.as.GroupKind(), NamespacedName: name}
	operators.RecordWrite(ctx, operators.Write{Verb: "patch", Key: key, ResourceVersion: scaled.ResourceVersion, Asked: how.asked})
	if err := kind.refresh(ctx, name, object.GetUID()); err != nil {
		return nil, fmt.Errorf("%s was scaled, but the cache does not show it yet: %w", key, err)
	}
	return scaled, nil
}

// scaleOf decodes the answer to a request for a scale.
func scaleOf(kind *form, name types.NamespacedName, body []byte, verb string, err error) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{}
	if err == nil {
		err = json.Unmarshal(body, scale)
	}
	if err == nil && scale.Name == "" {
		err = errNoObject
	}
	if err != nil {
		return nil, fmt.Errorf("cannot %s %s: %w", verb, streams.Key{GroupKind: kind.as.GroupKind(), NamespacedName: name}, err)
	}
	return scale, nil
}

// Evict asks the API server to delete a pod, unless a PodDisruptionBudget forbids it now. In that case it
// fails with an error for which apierrors.IsTooManyRequests is true. It takes the options of [Delete].
// The pod may be a projection. The next read of a cached pod shows that it is being deleted.
func Evict[T streams.Object](ctx context.Context, c *Client, pod T, options ...WriteOption) error {
	how, err := writingOf(options, mayDelete|mayNotValidate)
	var kind *form
	if err == nil {
		kind, err = c.named(pod)
	}
	if err == nil && kind.as.GroupKind() != corev1.SchemeGroupVersion.WithKind("Pod").GroupKind() {
		err = fmt.Errorf("only pods can be evicted")
	}
	if err != nil {
		return writeError("evict", kind, pod, err)
	}
	body, err := json.Marshal(&policyv1.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.GetNamespace(), Name: pod.GetName()},
		DeleteOptions: how.deletion(pod.GetUID(), pod.GetResourceVersion()),
	})
	if err == nil {
		err = kind.to(ctx, kind.requests.Post(), pod.GetNamespace()).
			Name(pod.GetName()).SubResource("eviction").
			SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON).
			MaxRetries(0). // The answer 429 means that a budget forbids it, not that the server is busy.
			Body(body).Do(ctx).Error()
	}
	if err != nil {
		return writeError("evict", kind, pod, err)
	}
	if how.dryRun {
		return nil
	}
	key := streams.KeyOf(kind.as.GroupKind(), pod)
	operators.RecordWrite(ctx, operators.Write{Verb: "evict", Key: key, Asked: how.asked})
	if err := kind.refresh(ctx, nameOf(pod), pod.GetUID()); err != nil {
		return fmt.Errorf("%s was evicted, but the cache does not show it yet: %w", key, err)
	}
	return nil
}
