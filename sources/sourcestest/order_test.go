package sourcestest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// Objects come, change and go between the pages of a list. The list has the objects of its first page's
// version, in order, as they were.
func TestAListInPagesIsOneOfItsVersion(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 0))
		server, err := New(Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		write := func() {
			name := fmt.Sprintf("x%02d", random.IntN(30))
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"at": fmt.Sprint(random.Uint64())}}
			switch random.IntN(3) {
			case 0:
				_ = server.Create(object) // It may exist.
			case 1:
				_ = server.Update(object) // It may not exist, and neither below.
			default:
				_ = server.Delete(object)
			}
		}
		for range 100 {
			write()
		}
		whole, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for query := (metav1.ListOptions{Limit: int64(1 + random.IntN(7))}); ; {
			page, err := client.CoreV1().ConfigMaps("").List(t.Context(), query)
			if err != nil {
				t.Fatal(err)
			}
			if page.ResourceVersion != whole.ResourceVersion || len(page.Items) > int(query.Limit) {
				t.Errorf("seed %d: a page has %d objects at version %s, want at most %d at %s", seed, len(page.Items), page.ResourceVersion, query.Limit, whole.ResourceVersion)
			}
			got = append(got, shown(page.Items)...)
			if query.Continue = page.Continue; query.Continue == "" {
				break
			}
			for range random.IntN(10) {
				write()
			}
		}
		if want := shown(whole.Items); !slices.Equal(got, want) {
			t.Errorf("seed %d: the pages have\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if !slices.IsSorted(got) {
			t.Errorf("seed %d: the pages are not in order: %v", seed, got)
		}
	}
}

func shown(items []corev1.ConfigMap) (lines []string) {
	for _, item := range items {
		lines = append(lines, fmt.Sprint(item.Name, " ", item.ResourceVersion, " ", item.Data))
	}
	return lines
}
