package io.headwater.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;

/** Hadoop's configuration for the executors: more than a thousand settings, sent again only when one of them changed. */
final class SharedConf {
  private static SparkContext context;
  private static Map<String, String> content;
  private static Broadcast<SerializableConfiguration> sent;

  private SharedConf() {}

  static synchronized Broadcast<SerializableConfiguration> broadcast(Configuration conf) {
    SparkContext current = SparkInternals.context();
    Map<String, String> now = new HashMap<>();
    conf.forEach(setting -> now.put(setting.getKey(), setting.getValue()));
    if (context != current || !now.equals(content)) {
      sent = SparkInternals.broadcast(new SerializableConfiguration(conf), SerializableConfiguration.class);
      content = now;
      context = current;
    }
    return sent;
  }
}
