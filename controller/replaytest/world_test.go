package replaytest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

var errUnlucky = errors.New("the horse has an unlucky name")

// variant is what a version of the controller does otherwise.
type variant struct {
	horse                                            string
	label, extraData                                 string
	seen                                             func(secrets int) int
	once                                             bool // it asks for no other attempt
	again                                            time.Duration
	fails, panics, neverWrites, deletes, forgivesAll bool
	readsLive, givesUp                               bool
}

// stable is a controller that copies ConfigMaps into Secrets, counts what it has seen, and sometimes fails.
func stable() controller.Setup { return stableAs(variant{horse: "!"}) }

func stableAs(of variant) controller.Setup {
	horse := of.horse
	if of.label == "" {
		of.label = "horse"
	}
	if of.seen == nil {
		of.seen = func(secrets int) int { return secrets }
	}
	return func(config *rest.Config, options controller.Options) (*controller.Manager, error) {
		manager, err := controller.NewManager(config, scheme.Scheme, options)
		if err != nil {
			return nil, err
		}
		client := manager.Client()
		return manager, manager.Add("stable", func(ctx context.Context, request operators.Request) (time.Duration, error) {
			object, err := controller.Get[*corev1.ConfigMap](ctx, client, request.NamespacedName)
			if err != nil {
				return 0, controller.IgnoreNotFound(err)
			}
			isUnlucky := object.Data["horse"] == "unlucky"
			switch {
			case isUnlucky && of.givesUp:
				return 0, operators.Terminal(errUnlucky)
			case isUnlucky && !of.forgivesAll:
				return 0, errUnlucky
			case of.fails:
				return 0, errors.New("seeded")
			case of.panics:
				panic("seeded")
			case of.neverWrites:
				return 0, nil
			case of.readsLive:
				if _, err := controller.GetLive[*corev1.ConfigMap](ctx, client, request.NamespacedName); err != nil {
					return 0, controller.IgnoreNotFound(err)
				}
			case of.deletes:
				return 0, controller.IgnoreNotFound(controller.Delete(ctx, client, object))
			}
			secret, err := controller.Get[*corev1.Secret](ctx, client, request.NamespacedName)
			switch wanted := object.Data["horse"] + horse; {
			case apierrors.IsNotFound(err):
				made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}, Data: map[string][]byte{"horse": []byte(wanted), "constant": []byte("canary-in-a-secret")}}
				made.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(object, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
				if _, err := controller.Create(ctx, client, made); err != nil {
					return 0, err
				}
			case err != nil:
				return 0, err
			case secret.Labels[of.label] != wanted:
				changed := secret.DeepCopy()
				changed.Labels = map[string]string{of.label: wanted}
				changed.Data = map[string][]byte{"horse": []byte(wanted)}
				if of.extraData != "" {
					changed.Data["extra"] = []byte(of.extraData)
				}
				if _, err := controller.Update(ctx, client, changed); err != nil {
					return 0, err
				}
			}
			all, err := controller.List[*corev1.Secret](ctx, client, controller.InNamespace(object.Namespace))
			if err != nil {
				return 0, err
			}
			if object.Annotations["seen"] != fmt.Sprint(of.seen(len(all))) {
				changed := object.DeepCopy()
				changed.Annotations = map[string]string{"seen": fmt.Sprint(of.seen(len(all))), "began": fmt.Sprint(controller.Now(ctx).UnixNano())}
				if _, err := controller.Patch(ctx, client, changed, controller.MergeFrom(object)); err != nil {
					return 0, err
				}
			}
			if of.once {
				return 0, nil
			}
			return of.again + time.Duration(len(object.Data["horse"]))*50*time.Millisecond, nil
		}, controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{}))
	}
}

// record runs the controller among foreign writes, and returns the folder of the recording.
func record(t *testing.T, writes int) string {
	t.Helper()
	options := recording.Options{Dir: t.TempDir()}
	recordInto(t, options, writes, make(chan struct{}))
	return options.Dir
}

// recordInto does what record does, into the folder of the options. It closes started when the folder has the first file.
func recordInto(t *testing.T, options recording.Options, writes int, started chan struct{}) {
	t.Helper()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	manager, err := stable()(server.Config(), controller.Options{Logger: slog.New(slog.DiscardHandler), Recording: &options, Backoff: operators.Backoff{First: 10 * time.Millisecond, Max: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("manager", manager.Run)
	random := rand.New(rand.NewPCG(1, 2))
	horses := []string{"arion", "balius", "xanthus", "unlucky", "areion"}
	for i := range writes {
		if i == writes/2 {
			<-time.After(1200 * time.Millisecond) // The writer flushes once a second.
			close(started)
		}
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("hero-%d", random.IntN(20))}}
		switch err := server.Get(object); {
		case err != nil:
			object.Data = map[string]string{"horse": horses[random.IntN(len(horses))]}
			err = server.Create(object)
			if err != nil {
				t.Fatal(err)
			}
		case random.IntN(10) == 0:
			_ = server.Delete(object) // The garbage collector may be faster.
		default:
			object.Data = map[string]string{"horse": horses[random.IntN(len(horses))]}
			_ = server.Update(object) // The controller may have been faster, which is a conflict.
		}
		<-time.After(time.Duration(random.IntN(4)) * time.Millisecond)
	}
	<-time.After(300 * time.Millisecond)
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *recording.Recording {
	t.Helper()
	opened, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}
