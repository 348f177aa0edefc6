package main

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/manykinds"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachKindHasAGoTypeOfItsOwn(t *testing.T) {
	types, seen := runtime.NewScheme(), map[reflect.Type]int{}
	all := kinds()
	if len(all) != manykinds.Most {
		t.Fatalf("there are %d kinds, want %d", len(all), manykinds.Most)
	}
	for i, kind := range all {
		kind.register(types, i)
		object, err := types.New(manykinds.GroupVersion.WithKind(manykinds.Kind(i)))
		if err != nil {
			t.Fatal(err)
		}
		if other, has := seen[reflect.TypeOf(object)]; has {
			t.Errorf("the kinds %d and %d have the type %T", other, i, object)
		}
		seen[reflect.TypeOf(object)] = i
	}
}

type (
	first  = manykinds.Object[pair[d0, d0]]
	second = manykinds.Object[pair[d0, d1]]
)

// inManager runs the manager of two kinds in virtual time, and calls act when it is calm.
func inManager(t *testing.T, act func(server *sourcestest.Server, calm func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		types := runtime.NewScheme()
		if err := corev1.AddToScheme(types); err != nil {
			t.Fatal(err)
		}
		for i, kind := range kinds()[:2] {
			kind.register(types, i)
		}
		server, err := sourcestest.New(sourcestest.Options{Scheme: types})
		if err != nil {
			t.Fatal(err)
		}
		manager, err := newManager(server.Config(), types, controller.Options{DetectMutations: true}, 2)
		if err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(t.Context())
		group.Go("manager", manager.Run)
		calm := func() { <-time.After(time.Minute) }
		calm()
		act(server, calm)
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestEachObjectGetsAConfigMapAndThenItsStatus(t *testing.T) {
	inManager(t, func(server *sourcestest.Server, calm func()) {
		one := &first{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one"}, Spec: manykinds.Spec{Colour: "white"}}
		two := &second{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "two"}, Spec: manykinds.Spec{Colour: "brown"}}
		create(t, server, one, two)
		calm()
		got := &first{ObjectMeta: one.ObjectMeta}
		if err := server.Get(got); err != nil || got.Status.ObservedGeneration != got.Generation || got.Generation == 0 {
			t.Errorf("the status of %+v: %v", got, err)
		}
		for name, colour := range map[string]string{"one": "white", "two": "brown"} {
			config := configOf(t, server, name)
			owner := metav1.GetControllerOf(config)
			if config.Data[keyColour] != colour || owner == nil || owner.Name != name || config.Labels[labelManagedBy] != managedBy {
				t.Errorf("the ConfigMap of %s is %+v", name, config)
			}
		}
	})
}

func TestWhatAnotherClientChangesOrDeletesIsUndone(t *testing.T) {
	inManager(t, func(server *sourcestest.Server, calm func()) {
		create(t, server, &first{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one"}, Spec: manykinds.Spec{Colour: "white"}})
		calm()
		config := configOf(t, server, "one")
		config.Data = map[string]string{keyColour: "grey", "of another client": "kept"}
		if err := server.Update(config); err != nil {
			t.Fatal(err)
		}
		calm()
		if config = configOf(t, server, "one"); config.Data[keyColour] != "white" || config.Data["of another client"] != "kept" {
			t.Errorf("after a change it has %v", config.Data)
		}
		if err := server.Delete(config); err != nil {
			t.Fatal(err)
		}
		calm()
		if config = configOf(t, server, "one"); config.Data[keyColour] != "white" {
			t.Errorf("after a deletion it has %v", config.Data)
		}
	})
}

func TestAConfigMapOfAnotherOwnerIsLeftAlone(t *testing.T) {
	inManager(t, func(server *sourcestest.Server, calm func()) {
		foreign := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one", Labels: map[string]string{labelManagedBy: managedBy}}, Data: map[string]string{keyColour: "grey"},
		}
		one := &first{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one"}, Spec: manykinds.Spec{Colour: "white"}}
		create(t, server, foreign, one)
		calm()
		got := &first{ObjectMeta: one.ObjectMeta}
		if err := server.Get(got); err != nil || got.Status.ObservedGeneration != 0 {
			t.Errorf("the status says that it is finished: %+v: %v", got, err)
		}
		if config := configOf(t, server, "one"); config.Data[keyColour] != "grey" {
			t.Errorf("the ConfigMap has %v", config.Data)
		}
	})
}

func create(t *testing.T, server *sourcestest.Server, objects ...interface {
	runtime.Object
	metav1.Object
}) {
	t.Helper()
	for _, object := range objects {
		if err := server.Create(object); err != nil {
			t.Fatal(err)
		}
	}
}

func configOf(t *testing.T, server *sourcestest.Server, name string) *corev1.ConfigMap {
	t.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
	if err := server.Get(config); err != nil {
		t.Fatal(err)
	}
	return config
}

func TestANumberOfTheEnvironmentIsInItsRange(t *testing.T) {
	for text, want := range map[string]int{"": 0, "0": 0, "51": 0, "many": 0, "1": 1, "50": 50} {
		t.Setenv("KINDS", text)
		if got, err := number("KINDS", 1, manykinds.Most); got != want || (err == nil) != (want > 0) {
			t.Errorf("KINDS=%s is %d: %v, want %d", text, got, err, want)
		}
	}
}
