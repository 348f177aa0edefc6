package compat_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// portedProgram returns the function of a program that creates its manager with NewManager.
func portedProgram(version ported) func(*rest.Config, controller.Options) (*compat.Manager, error) {
	return func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
		given := options()
		given.Scheme = scheme.Scheme
		mgr, err := compat.NewManager(config, given, ours)
		if err != nil {
			return nil, err
		}
		old := version
		old.Client = mgr.GetClient()
		return mgr, ctrl.NewControllerManagedBy(mgr).Named("copies").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(&old)
	}
}

func TestX(t *testing.T) {
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mgr, err := portedProgram(ported{})(server.Config(), controller.Options{Logger: slog.New(slog.DiscardHandler), Recording: &recording.Options{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("manager", mgr.Start)
	for i := range 60 {
		hero := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("hero-%d", i%6)}}
		if server.Get(hero) != nil {
			hero.Data = map[string]string{"horse": "pegasus"}
			err = server.Create(hero)
		} else {
			hero.Data = map[string]string{"horse": fmt.Sprintf("horse-%d", i)}
			err = server.Update(hero)
		}
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
	<-time.After(300 * time.Millisecond)
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	of, err := recording.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range of.Records {
		if r.Served != nil {
			t.Log(r.Served.Path, r.Served.Type, len(r.Served.Answer))
		}
	}
	equal(t, of, compat.Setup(portedProgram(ported{})))
	r := replaytest.Replay(t, of, compat.Setup(portedProgram(ported{suffix: "!"})))
	t.Log(len(r.Differences), strings.Join(r.Differences[0].Lines, "\n"))
	_ = context.Background
}
