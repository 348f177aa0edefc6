package replaytest_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

var errUnlucky = errors.New("the horse has an unlucky name")

// stable is a controller that copies ConfigMaps into Secrets, counts what it has seen, and sometimes fails.
func stable(horse string) controller.Setup {
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
			if object.Data["horse"] == "unlucky" {
				return 0, errUnlucky
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
			case secret.Labels["horse"] != wanted:
				changed := secret.DeepCopy()
				changed.Labels = map[string]string{"horse": wanted}
				changed.Data = map[string][]byte{"horse": []byte(wanted)}
				if _, err := controller.Update(ctx, client, changed); err != nil {
					return 0, err
				}
			}
			all, err := controller.List[*corev1.Secret](ctx, client, controller.InNamespace(object.Namespace))
			if err != nil {
				return 0, err
			}
			if object.Annotations["seen"] != fmt.Sprint(len(all)) {
				changed := object.DeepCopy()
				changed.Annotations = map[string]string{"seen": fmt.Sprint(len(all))}
				if _, err := controller.Patch(ctx, client, changed, controller.MergeFrom(object)); err != nil {
					return 0, err
				}
			}
			return time.Duration(len(object.Data["horse"])) * 50 * time.Millisecond, nil
		}, controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{}))
	}
}

// record runs the controller among foreign writes, and returns the folder of the recording.
func record(t *testing.T, options recording.Options, writes int) string {
	t.Helper()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	options.Dir = t.TempDir()
	manager, err := stable("!")(server.Config(), controller.Options{Logger: slog.New(slog.DiscardHandler), Recording: &options, Backoff: operators.Backoff{First: 10 * time.Millisecond, Max: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("manager", manager.Run)
	random := rand.New(rand.NewPCG(1, 2))
	horses := []string{"arion", "balius", "xanthus", "unlucky", "areion"}
	for range writes {
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
	return options.Dir
}

func open(t *testing.T, path string) *recording.Recording {
	t.Helper()
	opened, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func TestAReplayDecidesAsTheRecordingEachTime(t *testing.T) {
	recorded := open(t, record(t, recording.Options{}, 400))
	for range 100 {
		replayed := replaytest.Replay(t, recorded, stable("!"))
		t.Log(replayed.Attempts, replayed.Skipped)
		if replayed.Attempts < 300 {
			t.Fatalf("only %d attempts were compared", replayed.Attempts)
		}
		for _, difference := range replayed.Differences {
			t.Errorf("%s %s: %v", difference.Object, difference.ID, difference.Lines)
		}
		if t.Failed() {
			return
		}
	}
}

func TestAReplayOfAChangedReconcilerShowsEachDifference(t *testing.T) {
	recorded := open(t, record(t, recording.Options{}, 50))
	replayed := replaytest.Replay(t, recorded, stable("?"))
	if len(replayed.Differences) == 0 {
		t.Fatal("there is no difference")
	}
	t.Log(replayed.Differences[0].Lines)
}

func TestAnIncidentIsShrunkToWhatItNeeds(t *testing.T) {
	recorded := open(t, record(t, recording.Options{}, 300))
	var unlucky types.NamespacedName
	for _, made := range replaytest.Replay(t, recorded, stable("!")).Made {
		if errors.Is(made.Err, errUnlucky) {
			unlucky = made.Object
		}
	}
	incident, err := replaytest.FindIncident(recorded, "stable", unlucky)
	if err != nil {
		t.Fatal(err)
	}
	shrunk, err := replaytest.Shrink(t, recorded, stable("!"), incident)
	if err != nil {
		t.Fatal(err)
	}
	objects, attempts := 0, 0
	for _, record := range shrunk.Records {
		if record.Object != nil {
			objects++
		}
		if record.Start != nil {
			attempts++
		}
	}
	if objects != 1 || attempts != 1 {
		t.Errorf("%d versions of objects and %d attempts are left; one of each suffices", objects, attempts)
	}
	path := t.TempDir() + "/incident.recording"
	if err := shrunk.Save(path); err != nil {
		t.Fatal(err)
	}
	t.Log(incident, len(recorded.Records), len(shrunk.Records))
	mended := func(config *rest.Config, options controller.Options) (*controller.Manager, error) {
		manager, err := controller.NewManager(config, scheme.Scheme, options)
		if err != nil {
			return nil, err
		}
		return manager, manager.Add("stable", func(context.Context, operators.Request) (time.Duration, error) { return 0, nil },
			controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{}))
	}
	replaytest.DoesNotHappen(t, path, mended, incident)
}

func TestNoValueOfASecretIsInARecording(t *testing.T) {
	recorded := open(t, record(t, recording.Options{}, 100))
	secrets := 0
	for _, record := range recorded.Records {
		shown := fmt.Sprintf("%+v", record)
		if record.Object != nil {
			shown += string(record.Object.Body)
			if record.Object.Key.Kind == "Secret" {
				secrets++
			}
		}
		if record.Exchange != nil {
			shown += string(record.Exchange.Body) + string(record.Exchange.Answer)
		}
		for _, canary := range []string{"canary-in-a-secret", base64.StdEncoding.EncodeToString([]byte("canary-in-a-secret"))} {
			if strings.Contains(shown, canary) {
				t.Fatalf("a record has a value of a Secret: %s", shown)
			}
		}
	}
	if secrets == 0 {
		t.Error("the recording has no Secret")
	}
}
