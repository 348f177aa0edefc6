package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	namespace = "stable"
	hostile   = `<img src=x onerror=alert(1)><script>alert(2)</script>` // in a condition, an annotation and an error
)

// world is an operator on a simulated API server, with objects that change.
type world struct {
	t       *testing.T
	server  *sourcestest.Server
	address string           // of the metrics server; the same after a restart
	group   *lifecycle.Group // of the operator
	records string           // the folder of its recording, or empty
}

func newWorld(t *testing.T, objects int) *world { return newRecordedWorld(t, objects, "") }

func newRecordedWorld(t *testing.T, objects int, records string) *world {
	t.Helper()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, server: server, address: "127.0.0.1:0", records: records}
	for i := range objects {
		made := deployment(i)
		if err := errors.Join(server.Create(made), server.Get(made)); err != nil {
			t.Fatal(err)
		}
		made.Status.ObservedGeneration = 1 << 40
		made.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "Grazing", Message: hostile}}
		if err := server.Update(made); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	t.Cleanup(w.stop)
	changing := lifecycle.New(context.Background())
	changing.Go("change", func(ctx context.Context) error { return w.change(ctx, objects) })
	t.Cleanup(func() {
		changing.Stop()
		if err := changing.Wait(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func deployment(i int) *appsv1.Deployment {
	name := fmt.Sprintf("pegasus-%d", i)
	labels := map[string]string{"horse": name}
	made := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"note": hostile}}}
	made.Spec.Replicas = new(int32(1))
	made.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	made.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "horse", Image: "horse"}}}}
	return made
}

// change changes one object after the other until ctx ends.
func (w *world) change(ctx context.Context, objects int) error {
	for i := 0; ; i++ {
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
		for range 1 + i%4 { // The events of some come so soon after another that they are folded.
			held := deployment((i / 4) % objects)
			if err := w.server.Get(held); err != nil {
				return err
			}
			held.Spec.Replicas = new(*held.Spec.Replicas%9 + 1)
			if err := w.server.Update(held); err != nil && !apierrors.IsConflict(err) {
				return err
			}
		}
	}
}

func (w *world) start() {
	w.t.Helper()
	listens := make(chan net.Addr, 1)
	options := controller.Options{
		Logger: slog.New(slog.DiscardHandler), MetricsAddress: w.address, Backoff: operators.Backoff{First: time.Second, Max: 5 * time.Second},
		OnListen: func(_ string, address net.Addr) { listens <- address },
	}
	if w.records != "" {
		options.Recording = &recording.Options{Dir: w.records, Version: "v1", Logger: options.Logger}
	}
	manager, err := controller.NewManager(w.server.Config(), scheme.Scheme, options)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := manager.Add("stables", stable(manager.Client()), controller.For(&appsv1.Deployment{}), controller.Owns(&corev1.Service{}), controller.Owns(&corev1.ConfigMap{})); err != nil {
		w.t.Fatal(err)
	}
	if err := manager.Add("grooms", groom, controller.For(&corev1.ConfigMap{})); err != nil {
		w.t.Fatal(err)
	}
	w.group = lifecycle.New(context.Background())
	w.group.Go("manager", manager.Run)
	select {
	case address := <-listens:
		w.address = address.String()
	case <-w.group.Context().Done():
		w.t.Fatal(w.group.Wait())
	}
}

func (w *world) stop() {
	w.group.Stop()
	if err := w.group.Wait(); err != nil {
		w.t.Error(err)
	}
}

// stable returns a reconciler that gives each Deployment a Service, and a ConfigMap with its replicas.
func stable(client *controller.Client) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (again time.Duration, err error) {
		owner, err := controller.Get[*appsv1.Deployment](ctx, client, request.NamespacedName)
		if err != nil {
			return 0, controller.IgnoreNotFound(err)
		}
		work(ctx, time.Duration(20+10*(len(request.Name)+int(*owner.Spec.Replicas)))*time.Millisecond)
		meta := metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}
		if err := controller.SetControllerReference(client, owner, &corev1.Service{ObjectMeta: meta}); err != nil {
			return 0, err
		}
		meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		if _, err := controller.Get[*corev1.Service](ctx, client, request.NamespacedName); apierrors.IsNotFound(err) {
			if _, err := controller.Create(ctx, client, &corev1.Service{ObjectMeta: meta}); err != nil {
				return 0, err
			}
		}
		if strings.HasSuffix(request.Name, "-5") {
			defer func() { err = cmp.Or(err, errors.New("the horse refuses: "+hostile)) }()
		}
		err = keepConfig(ctx, client, request.NamespacedName, meta, fmt.Sprint(*owner.Spec.Replicas))
		if *owner.Spec.Replicas == 7 {
			return 3 * time.Second, err
		}
		return 0, err
	}
}

func keepConfig(ctx context.Context, client *controller.Client, name types.NamespacedName, meta metav1.ObjectMeta, replicas string) error {
	config, err := controller.Get[*corev1.ConfigMap](ctx, client, name)
	switch {
	case apierrors.IsNotFound(err):
		_, err = controller.Create(ctx, client, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"replicas": replicas}})
	case err == nil && config.Data["replicas"] != replicas:
		changed := config.DeepCopy()
		changed.Data = map[string]string{"replicas": replicas}
		_, err = controller.Patch(ctx, client, changed, controller.MergeFrom(config))
	}
	return err
}

func groom(ctx context.Context, request operators.Request) (time.Duration, error) {
	work(ctx, 30*time.Millisecond)
	if strings.HasSuffix(request.Name, "-3") {
		return 0, operators.Terminal(errors.New("the stable has no groom"))
	}
	return 0, nil
}

// work takes a time, as a call of another system does.
func work(ctx context.Context, long time.Duration) {
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
}
