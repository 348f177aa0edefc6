package hero

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"reflect"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1alpha0"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1beta7"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/randfill"
)

var conversions = flag.Int("conversions", 5000, "how many random heroes are converted there and back")

// filler returns a source of random heroes whose values survive JSON.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(1, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(fmt.Sprintf("%dMi", 1+2*c.Int63n(1<<20)))
		},
		func(of *v1.BellerophonStatus, c randfill.Continue) {
			c.FillNoCustom(of)
			of.Conditions, of.LastBackup = nil, nil // Times lose their fractions of a second in any JSON.
		},
		func(to *corev1.Toleration, c randfill.Continue) { to.Key, to.Value = c.String(10), c.String(10) },
		func(to *corev1.Affinity, c randfill.Continue) {
			to.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: c.Int31n(100)}}}
		},
	)
}

// same compares two objects as JSON, in which nil and empty are equal.
func same(t *testing.T, a, b any) bool {
	t.Helper()
	decoded := [2]any{}
	for i, one := range []any{a, b} {
		content, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(content, &decoded[i]); err != nil {
			t.Fatal(err)
		}
	}
	return reflect.DeepEqual(decoded[0], decoded[1])
}

func TestAHeroIsConvertedThereAndBackWithoutLoss(t *testing.T) {
	fill, ctx := filler(1), context.Background()
	for range *conversions {
		want := &v1.Bellerophon{}
		fill.Fill(&want.Spec)
		fill.Fill(&want.Status)
		want.Annotations = map[string]string{"theirs": "stays"}
		alpha, beta, got := &v1alpha0.Bellerophon{}, &v1beta7.Bellerophon{}, &v1.Bellerophon{}
		alpha.Annotations = map[string]string{"theirs": "stays"}
		if err := toAlpha(ctx, want, alpha); err != nil {
			t.Fatal(err)
		}
		got.Annotations = alpha.Annotations
		if err := fromAlpha(ctx, alpha, got); err != nil {
			t.Fatal(err)
		}
		if !same(t, got, want) {
			t.Fatalf("by v1alpha0: %+v\nwant %+v", got, want)
		}
		got = &v1.Bellerophon{}
		beta.Annotations = map[string]string{"theirs": "stays"}
		if err := toBeta(ctx, want, beta); err != nil {
			t.Fatal(err)
		}
		got.Annotations = beta.Annotations
		if err := fromBeta(ctx, beta, got); err != nil {
			t.Fatal(err)
		}
		if !same(t, got, want) {
			t.Fatalf("by v1beta7: %+v\nwant %+v", got, want)
		}
	}
	report(t, "random heroes that are converted to both old versions and back without loss", fmt.Sprintf("%d of %d", *conversions, *conversions), "all", true)
}

func TestAnOldHeroIsConvertedThereAndBackWithoutLoss(t *testing.T) {
	fill, ctx := filler(2), context.Background()
	for range *conversions {
		want, got, hub := &v1beta7.Bellerophon{}, &v1beta7.Bellerophon{}, &v1.Bellerophon{}
		fill.Fill(&want.Spec)
		fill.Fill(&want.Weapons)
		fill.Fill(&want.Status)
		got.Annotations = map[string]string{}
		if err := fromBeta(ctx, want, hub); err != nil {
			t.Fatal(err)
		}
		if err := toBeta(ctx, hub, got); err != nil {
			t.Fatal(err)
		}
		delete(got.Annotations, keptAnnotation) // The defaults of v1.
		if !same(t, got.Spec, want.Spec) || !same(t, got.Weapons, want.Weapons) || !same(t, got.Status, want.Status) {
			t.Fatalf("%+v\nwant %+v", got, want)
		}
	}
}

func TestAChangeInAnOldVersionKeepsTheOtherFields(t *testing.T) {
	ctx, three, five := context.Background(), int32(3), int32(5)
	stored := &v1.Bellerophon{Spec: v1.BellerophonSpec{
		WingedHorseName: "pegasus", Image: "a", Replicas: &three, Paused: true, Weapons: &v1.Weapons{Explosive: "greek fire"}, Config: map[string]v1.Setting{"quota": "1Gi"},
	}}
	seen := &v1alpha0.Bellerophon{}
	seen.Annotations = map[string]string{}
	if err := toAlpha(ctx, stored, seen); err != nil {
		t.Fatal(err)
	}
	seen.Spec.Replicas, seen.Spec.Image = &five, "b"
	got := &v1.Bellerophon{}
	got.Annotations = seen.Annotations
	if err := fromAlpha(ctx, seen, got); err != nil {
		t.Fatal(err)
	}
	want := stored.DeepCopy()
	want.Spec.Replicas, want.Spec.Image = &five, "b"
	if !same(t, got.Spec, want.Spec) {
		t.Errorf("%+v, want %+v", got.Spec, want.Spec)
	}
	got.Annotations = map[string]string{keptAnnotation: "{"}
	if err := fromAlpha(ctx, seen, got); err == nil {
		t.Error("a damaged annotation is no error, and would lose fields")
	}
}
