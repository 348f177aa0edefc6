package faults_test

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

// mistakeVariable is the variable of the environment that makes this test binary an operator. Its value is
// the mistake of the operator.
const mistakeVariable = "FAULTS_MISTAKE"

// The mistakes of an operator that copies ConfigMaps to Secrets.
const (
	noMistake       = "none"
	duplicates      = "it generates names, and remembers in memory what it created"
	halfDone        = "it writes the label only after its own creation"
	blindDeletion   = "it deletes by name, without the identifier that it has seen"
	blindUpdate     = "it updates without the version that it has seen"
	givesUp         = "it does not retry"
	hotLoop         = "it retries without a delay"
	forgetsDeletion = "it handles a deletion only when it sees its event"
)

// naive is a small operator, in the style of a first tutorial.
type naive struct {
	mistake string
	client  kubernetes.Interface
	configs listers.ConfigMapLister
	secrets listers.SecretLister
	created map[string]bool
}

// operate runs the operator until the process is killed.
func operate(mistake string) error {
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	configs, secrets := factory.Core().V1().ConfigMaps(), factory.Core().V1().Secrets()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, time.Second))
	n := &naive{mistake, client, configs.Lister(), secrets.Lister(), map[string]bool{}}
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			if mistake == duplicates { // The key of a Secret says nothing about its ConfigMap.
				key = ownerOf(object, key)
			}
			queue.Add(key)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) },
		DeleteFunc: func(object any) { enqueue(object) },
	}
	for _, informer := range []cache.SharedIndexInformer{configs.Informer(), secrets.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for {
		key, ended := queue.Get()
		if ended {
			return nil
		}
		err := n.reconcile(ctx, key)
		queue.Done(key)
		switch {
		case err == nil:
			queue.Forget(key)
		case mistake == givesUp:
		case mistake == hotLoop:
			queue.Add(key)
		default:
			fmt.Fprintln(os.Stderr, key, err)
			queue.AddRateLimited(key)
		}
	}
}

func ownerOf(object any, key string) string {
	if secret, is := object.(*corev1.Secret); is {
		return secret.Namespace + "/" + secret.Labels["of"]
	}
	return key
}

func (n *naive) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil || name == "kube-root-ca.crt" || name == "" {
		return err
	}
	config, err := n.configs.ConfigMaps(namespace).Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	secret, missing := n.secrets.Secrets(namespace).Get(name)
	if n.mistake == duplicates {
		return n.duplicate(ctx, namespace, name, config, err == nil)
	}
	client := n.client.CoreV1().Secrets(namespace)
	switch {
	case err != nil && missing != nil:
		return nil
	case err != nil:
		return n.remove(ctx, key, secret)
	case missing != nil:
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: contentOf(config)}
		if n.mistake != halfDone {
			made.Labels = map[string]string{"done": "true"}
		}
		created, err := client.Create(ctx, made, metav1.CreateOptions{})
		if err != nil || n.mistake != halfDone {
			return err
		}
		created.Labels = map[string]string{"done": "true"}
		_, err = client.Update(ctx, created, metav1.UpdateOptions{})
		return err
	}
	n.created[key] = true
	if wanted := contentOf(config); string(wanted["v"]) != string(secret.Data["v"]) {
		changed := secret.DeepCopy()
		changed.Data = wanted
		if n.mistake == blindUpdate {
			changed.UID, changed.ResourceVersion = "", ""
		}
		_, err = client.Update(ctx, changed, metav1.UpdateOptions{})
		return err
	}
	return nil
}

func (n *naive) remove(ctx context.Context, key string, secret *corev1.Secret) error {
	if n.mistake == forgetsDeletion && !n.created[key] {
		return nil
	}
	options := metav1.DeleteOptions{}
	if n.mistake != blindDeletion {
		options.Preconditions = &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}
	}
	err := n.client.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// duplicate keeps a Secret with a generated name.
func (n *naive) duplicate(ctx context.Context, namespace, name string, config *corev1.ConfigMap, exists bool) error {
	key, client := namespace+"/"+name, n.client.CoreV1().Secrets(namespace)
	secrets, err := client.List(ctx, metav1.ListOptions{LabelSelector: "of=" + name})
	if err != nil {
		return err
	}
	switch {
	case !exists:
		n.created[key] = false
		return client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "of=" + name})
	case !n.created[key]:
		n.created[key] = true
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: map[string]string{"of": name}}, Data: contentOf(config)}
		_, err = client.Create(ctx, made, metav1.CreateOptions{})
		return err
	}
	for _, secret := range secrets.Items {
		if string(secret.Data["v"]) != config.Data["v"] {
			secret.Data = contentOf(config)
			if _, err := client.Update(ctx, &secret, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

func contentOf(config *corev1.ConfigMap) map[string][]byte {
	content := map[string][]byte{}
	for name, value := range config.Data {
		content[name] = []byte(value)
	}
	return content
}
