package io.bellerophon.bench.tutorial;

import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.client.utils.KubernetesSerialization;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Sets only the desired fields in an observed object. */
final class Merge {

  /** Fields that are replaced as a whole, because an added entry would change their meaning. */
  private static final Set<String> WHOLE = Set.of("selector", "seccompProfile", "capabilities");

  /** The keys that identify an item of a list. A port that was renamed is found by its number. */
  private static final Map<String, List<Set<String>>> ITEM_KEYS = Map.of(
      "ownerReferences", List.of(Set.of("uid")),
      "containers", List.of(Set.of("name")),
      "ports", List.of(Set.of("name"), Set.of("port", "protocol"), Set.of("containerPort", "protocol")),
      "volumeMounts", List.of(Set.of("mountPath")),
      "volumes", List.of(Set.of("name")));

  private Merge() {}

  /** Returns the observed object with the desired fields, or null if nothing differs. */
  @SuppressWarnings("unchecked")
  static <T extends HasMetadata> T into(KubernetesSerialization json, T seen, T want) {
    Map<String, Object> before = json.convertValue(seen, Map.class);
    Map<String, Object> after = maps(before, json.convertValue(want, Map.class));
    return after.equals(before) ? null : (T) json.convertValue(after, seen.getClass());
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> maps(Map<String, Object> seen, Map<String, Object> want) {
    Map<String, Object> merged = new HashMap<>(seen);
    want.forEach((key, wanted) -> {
      Object held = seen.get(key);
      if (WHOLE.contains(key) || held == null) {
        merged.put(key, wanted);
      } else if (wanted instanceof Map && held instanceof Map) {
        merged.put(key, maps((Map<String, Object>) held, (Map<String, Object>) wanted));
      } else if (wanted instanceof List && held instanceof List) {
        merged.put(key, lists(key, (List<Object>) held, (List<Object>) wanted));
      } else {
        merged.put(key, wanted);
      }
    });
    return merged;
  }

  @SuppressWarnings("unchecked")
  private static List<Object> lists(String name, List<Object> seen, List<Object> want) {
    List<Object> merged = new ArrayList<>(seen);
    for (Object item : want) {
      Map<String, Object> wanted = (Map<String, Object>) item; // Lists of strings occur only below fields in WHOLE.
      int at = ITEM_KEYS.get(name).stream()
          .filter(wanted.keySet()::containsAll)
          .map(keys -> indexOf(merged, wanted, keys))
          .filter(found -> found >= 0)
          .findFirst()
          .orElse(-1);
      if (at < 0) {
        merged.add(wanted);
        continue;
      }
      Map<String, Object> held = (Map<String, Object>) merged.get(at);
      boolean otherSource = name.equals("volumes") && !held.keySet().containsAll(wanted.keySet());
      merged.set(at, otherSource ? wanted : maps(held, wanted));
    }
    return merged;
  }

  private static int indexOf(List<Object> items, Map<String, Object> wanted, Set<String> keys) {
    for (int i = 0; i < items.size(); i++) {
      Map<?, ?> item = (Map<?, ?>) items.get(i);
      if (keys.stream().allMatch(key -> wanted.get(key).equals(item.get(key)))) {
        return i;
      }
    }
    return -1;
  }
}
